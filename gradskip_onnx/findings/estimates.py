"""Means and shares with intervals, overall and by class, and the tests that single out a class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from gradskip_onnx.imports.optional import import_optional
from gradskip_onnx.metrics.statistics import LEVEL, Interval, holm, percentiles, resampled_means
from gradskip_onnx.types import Array

from .observed import NO_CLASS

COVERAGE = 0.95
NORMAL = 1.959964  # quantile of the normal distribution: a coverage of 95 %
MANY = 5000  # from so many images on, the bootstrap of a mean and the normal interval are the same to three digits
FEWEST = 5  # images of a class below which no test is made
LARGE = (
    0.8  # difference in standard deviations that Cohen (1988) calls large; small ones are always significant in bulk
)

Estimate = Callable[[Array], Interval]


def mean(span: tuple[float, float], resamples: int, seed: int) -> Estimate:
    """The mean with a percentile bootstrap interval; one image alone says nothing but that it lies within `span`."""

    def estimate(values: Array) -> Interval:
        count, value = len(values), float(values.mean())
        if count == 1:
            return Interval(value, *span, 1)
        if count > MANY:
            return around(value, float(values.std(ddof=1)) / count**0.5, span, count)
        low, high = percentiles(resampled_means(values[:, None], resamples, seed), COVERAGE)
        return Interval(value, low, high, count)

    return estimate


def share(values: Array) -> Interval:
    """The share of ones among zeros and ones, with the exact interval of Clopper and Pearson."""
    test = import_optional("scipy.stats", "audit").binomtest(int(values.sum()), len(values))
    low, high = test.proportion_ci(COVERAGE, "exact")
    return Interval(float(values.mean()), float(low), float(high), len(values))


def around(value: float, error: float, span: tuple[float, float], count: int) -> Interval:
    """The normal interval of a value with this standard error, cut to what is possible."""
    low, high = np.clip((value - NORMAL * error, value + NORMAL * error), *span)
    return Interval(value, float(low), float(high), count)


def groups(values: Array, classes: Array) -> Iterator[tuple[int, Array]]:
    """Yield each class and its values; values that are NaN and images without a class are left out."""
    known = ~np.isnan(values) & (classes != NO_CLASS)
    values, classes = values[known], classes[known]
    if not len(values):
        return
    order = np.argsort(classes, kind="stable")
    indices, starts = np.unique(classes[order], return_index=True)
    for index, start, end in zip(indices, starts, np.append(starts[1:], len(order)), strict=True):
        yield int(index), values[order[start:end]]


def estimates(values: Array, classes: Array, estimate: Estimate) -> tuple[Interval | None, dict[int, Interval]]:
    """The estimate over all values that are not NaN, and over those of each class."""
    known = values[~np.isnan(values)]
    overall = estimate(known) if len(known) else None
    return overall, {index: estimate(part) for index, part in groups(values, classes)}


def standing_out(values: Array, classes: Array) -> dict[int, float]:
    """Classes whose mean differs from that of all others, each with the difference.

    Welch's test, corrected for the number of classes by Holm's method; the difference must also be large (Cohen's d).
    """
    parts = {index: part for index, part in groups(values, classes) if len(part) >= FEWEST}
    if len(parts) < 2:
        return {}
    means, variances, counts = (np.array([f(part) for part in parts.values()]) for f in (np.mean, _variance, len))
    total, squares = (counts * means).sum(), ((counts - 1) * variances + counts * means**2).sum()
    others = counts.sum() - counts
    other_means = (total - counts * means) / others
    other_squares = squares - (counts - 1) * variances - counts * means**2
    other_variances = np.maximum(other_squares - others * other_means**2, 0.0) / (others - 1)
    differences = means - other_means
    tested = import_optional("scipy.stats", "audit").ttest_ind_from_stats(
        means, np.sqrt(variances), counts, other_means, np.sqrt(other_variances), others, equal_var=False
    )
    spreads = np.sqrt((variances + other_variances) / 2)
    large = np.abs(differences) >= LARGE * spreads
    # without any spread SciPy gives NaN: equal then, or different beyond doubt
    ps = np.where(spreads > 0, tested.pvalue, (differences == 0).astype(float))
    corrected = holm(ps.tolist())
    return {
        index: float(difference)
        for index, difference, p, is_large in zip(parts, differences, corrected, large, strict=True)
        if p < LEVEL and is_large and difference != 0
    }


def below_zero(values: Array, classes: Array) -> tuple[bool, list[int]]:
    """Whether the mean of all values lies below 0 beyond doubt, and the classes of which it does (t-test, Holm)."""
    parts = {index: part for index, part in groups(values, classes) if len(part) >= FEWEST}
    known = values[~np.isnan(values)]
    overall = len(known) >= FEWEST and _p_below(known) < LEVEL
    corrected = holm([_p_below(part) for part in parts.values()])
    return overall, [index for index, p in zip(parts, corrected, strict=True) if p < LEVEL]


def _p_below(values: Array) -> float:
    if np.ptp(values) == 0:
        return float(values[0] >= 0)
    return float(import_optional("scipy.stats", "audit").ttest_1samp(values, 0.0, alternative="less").pvalue)


def _variance(part: Array) -> float:
    return float(part.var(ddof=1))


def combined(parts: Mapping[int, tuple[float, float, int]], span: tuple[float, float]) -> Interval | None:
    """The mean over classes, weighted by their images, from (value, standard error, images) of each.

    Of a class too small for an error, which is infinite then, half the span is taken: nothing within it spreads more.
    """
    total = sum(count for _, _, count in parts.values())
    if not total:
        return None
    value, most = sum(value * count for value, _, count in parts.values()) / total, (span[1] - span[0]) / 2
    error = sum((min(error, most) * count / total) ** 2 for _, error, count in parts.values()) ** 0.5
    return around(value, error, span, total)
