"""How alike the maps of one class are: the mean correlation of pairs, in two passes over the maps and flat memory."""

from __future__ import annotations

import numpy as np

from gradskip_onnx.metrics.statistics import Interval
from gradskip_onnx.types import Array

from .estimates import around, combined, groups, student
from .found import Finding
from .observed import NO_CLASS, Observed, directions
from .row import Row, finding, outliers, striking

SPAN = (-1.0, 1.0)


def agreement(row: Row, observed: Observed) -> Finding:
    """The mean correlation of the maps of a class with one another; overall, the mean over all images."""
    classes, values = observed.classes(row.by), with_others(observed)
    parts = {index: (part.mean(), jackknife_error(part), len(part)) for index, part in groups(values, classes)}
    found = {
        index: Interval(value, *SPAN, count) if count < 3 else around(value, error, SPAN, count, student(count - 1))
        for index, (value, error, count) in parts.items()
    }
    flagged = outliers(row, values, classes)
    return finding(row, combined(parts, SPAN), found, examples=striking(row, observed, values), flagged=flagged)


def with_others(observed: Observed) -> Array:
    """The mean correlation of each map with all others of its class, (n,), NaN without a map or without others.

    With maps z_i of mean 0 and length 1, and S the sum over the n of a class, it is (z_i S - 1) / (n - 1).
    """
    classes = observed.classes("target")
    places = {int(position): at for at, position in enumerate(observed.positions)}
    sums: dict[int, Array] = {}
    counts: dict[int, int] = {}
    for positions, maps in observed.maps(observed.explained):
        of_maps, usable = classes[[places[p] for p in positions]], directions(maps)
        for index in np.unique(of_maps[(of_maps != NO_CLASS) & usable.any(axis=1)]):
            mine = usable[(of_maps == index) & usable.any(axis=1)]
            sums[index] = sums.get(index, 0.0) + mine.sum(axis=0)
            counts[index] = counts.get(index, 0) + len(mine)
    values = np.full(len(observed.positions), np.nan)
    for positions, maps in observed.maps(observed.explained):
        for position, direction in zip(positions, directions(maps), strict=True):
            at = places[position]
            count = counts.get(classes[at], 0)
            if count > 1 and direction.any():
                values[at] = (direction @ sums[classes[at]] - 1.0) / (count - 1)
    return values


def jackknife_error(values: Array) -> float:
    """The standard error of a mean over pairs, from the mean h_i over the pairs of each image.

    Without image i the mean over pairs is (n U - 2 h_i) / (n - 2); the jackknife (n - 1) / n sum (U_i - U)^2 of these
    is 4 (n - 1) / (n (n - 2)^2) sum (h_i - U)^2.
    """
    n = len(values)
    if n < 3:
        return float("inf")
    squares = float(((values - values.mean()) ** 2).sum())
    return float((4 * (n - 1) / (n * (n - 2) ** 2) * squares) ** 0.5)
