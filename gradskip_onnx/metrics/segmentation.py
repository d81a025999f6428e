"""Compares a map, cut into object and background, with a mask: pixel accuracy, recall, IoU and mean IoU.

The numbers depend on the threshold of the cut, on which papers disagree or are silent: each reading is a named rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradskip_onnx.images import interpolate
from gradskip_onnx.methods.options import option
from gradskip_onnx.types import Array

from .ranking import ranks
from .sample import IGNORED, Saliency, Sample, Score
from .table import ImageMetric, Measured, first, metric

BINS = 256
LEVEL = 0.75  # the reading of papers that say "saliency greater than 0.75"


def above_mean(values: Array, seed: int) -> Array:
    """Larger than the mean of the map, as in Chefer et al."""
    del seed
    return np.asarray(values > values.mean(dtype=np.float64))


def above_level(values: Array, seed: int) -> Array:
    """Larger than 0.75, of values scaled to 0 ... 1."""
    del seed
    return values > LEVEL


def above_otsu(values: Array, seed: int) -> Array:
    """At or above the level of Otsu, which is the lower edge of a bin."""
    del seed
    return values >= otsu(values)


def above_mov(values: Array, seed: int) -> Array:
    """Larger than mean / (3 std), "mean over variation", as in PE-LRP."""
    del seed
    return np.asarray(values > values.mean(dtype=np.float64) / (3 * values.std(dtype=np.float64) + 1e-10))


def _top(share: float) -> Callable[[Array, int], Array]:
    def strongest(values: Array, seed: int) -> Array:
        return ranks(values, seed) < round(share * values.size)

    return strongest


RULES: dict[str, Callable[[Array, int], Array]] = {
    "mean": above_mean,
    "value75": above_level,
    "top75": _top(0.75),
    "top25": _top(0.25),
    "otsu": above_otsu,
    "mov": above_mov,
}


def otsu(values: Array) -> float:
    """The level in [0, 1] with the largest variance between the values below and above it; 256 bins, first maximum."""
    counts, edges = np.histogram(values, BINS, (0.0, 1.0))
    centres = (edges[1:] + edges[:-1]) / 2
    below = np.cumsum(counts)[:-1].astype(np.float64)
    above = values.size - below
    moment = np.cumsum(counts * centres)
    gap = moment[:-1] / np.maximum(below, 1) - (moment[-1] - moment[:-1]) / np.maximum(above, 1)
    return float(edges[1 + int((below * above * gap**2).argmax())])


@dataclass(frozen=True, slots=True)
class Options:
    """How the map is cut."""

    threshold: str = option("mean", "which pixels of the map count as object", choices=tuple(RULES))


def compare(sample: Sample, saliency: Saliency, score: Score, options: Options) -> Measured:
    """Pixel counts of the cut map and the mask; unlabelled pixels are left out."""
    del score
    if sample.mask is None:
        return Measured(excluded="no mask")
    labelled, truth = sample.mask != IGNORED, sample.mask == 1
    if not truth.any():
        return Measured(excluded="no pixel of the mask belongs to the class")
    cut = RULES[options.threshold](interpolate.normalise(saliency.map), sample.seed) & labelled
    found, wrong = int((cut & truth).sum()), int((cut & ~truth).sum())
    area, total = int(truth.sum()), int(labelled.sum())
    rest = total - area - wrong  # background found as background
    numbers = {
        "correct": found + rest,
        "labelled": total,
        "found": found,
        "object": area,
        "object_union": area + wrong,
        "background": rest,
        "background_union": total - found,
        "iou": found / (area + wrong),
    }
    return Measured({name: float(value) for name, value in numbers.items()})


def ratio(terms: Array) -> Array:
    """The first term over the second, both accumulated over the dataset."""
    return terms[..., 0] / terms[..., 1]


def mean_iou(terms: Array) -> Array:
    """Mean of the accumulated IoU of object and background; an empty union counts as 1."""
    intersection, union = terms[..., ::2], terms[..., 1::2]
    return np.asarray(np.where(union > 0, intersection / np.maximum(union, np.finfo(float).tiny), 1.0).mean(axis=-1))


def _passes(options: Any) -> int:
    del options
    return 0


def _row(name: str, summary: str, terms: tuple[str, ...], finish: Callable[[Array], Array]) -> ImageMetric:
    return metric(
        ImageMetric(
            name,
            summary,
            Options,
            better="higher",
            span=(0.0, 1.0),
            terms=terms,
            finish=finish,
            measure=compare,
            passes=_passes,
            needs=("mask",),
        )
    )


UNIONS = ("found", "object_union", "background", "background_union")
_row("pixel-accuracy", "share of labelled pixels told right, over the dataset", ("correct", "labelled"), ratio)
_row("pixel-recall", "share of the object's pixels found, over the dataset", ("found", "object"), ratio)
_row("iou", "overlap of cut map and object over their union, mean over images", ("iou",), first)
_row("miou", "mean IoU of object and background, accumulated over the dataset", UNIONS, mean_iou)
