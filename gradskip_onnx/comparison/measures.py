"""How alike two maps of one image are: rank correlation, overlap of the outlined areas, and nDCG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gradskip_onnx.drawing.outline import smallest_area
from gradskip_onnx.findings.observed import on_grid
from gradskip_onnx.imports.optional import import_optional
from gradskip_onnx.metrics.similarity import ranks_alike
from gradskip_onnx.types import Array

OUTLINED = 0.5  # share of the positive relevance in the outlined area, as in pictures


class Compare(Protocol):
    def __call__(self, one: Array, other: Array, /) -> float: ...


@dataclass(frozen=True, slots=True)
class Measure:
    """A similarity of two maps (rows, columns) of equal shape; 1 for equal maps, NaN where it means nothing."""

    name: str
    definition: str
    unit: str
    span: tuple[float, float]
    compare: Compare


def overlap(one: Array, other: Array) -> float:
    """Intersection over union of the smallest areas with half of the positive relevance; NaN if neither has any."""
    a, b = smallest_area(one, OUTLINED), smallest_area(other, OUTLINED)
    union = int((a | b).sum())
    return float((a & b).sum()) / union if union else float("nan")


def ndcg(one: Array, other: Array) -> float:
    """Normalised discounted cumulative gain of the second map as a ranking, the first's positive part being the gain.

    sum g_i / log2(1 + rank_i), over the same with the ranks of the gain itself (Jarvelin and Kekalainen 2002); places
    of equal rank share their discounts. NaN without a gain.
    """
    gain = np.maximum(one, 0).reshape(1, -1).astype(np.float64)
    if not gain.any():
        return float("nan")
    score = import_optional("sklearn.metrics", "audit").ndcg_score
    return float(score(gain, other.reshape(1, -1).astype(np.float64))) if gain.size > 1 else 1.0


MEASURES: tuple[Measure, ...] = (
    Measure("spearman", "rank correlation of the two maps of an image", "correlation", (-1.0, 1.0), ranks_alike),
    Measure(
        "iou", "overlap of the outlined areas: intersection over union of the smallest areas that hold half of the "
        "positive relevance of each map", "share of their union", (0.0, 1.0), overlap,
    ),
    Measure(
        "ndcg", "how well the second map ranks what the first calls relevant (normalised discounted cumulative gain)",
        "share of the best ranking", (0.0, 1.0), ndcg,
    ),
)  # fmt: skip


def compare_maps(one: Array, other: Array) -> Mapping[str, float]:
    """Every measure of two maps; of maps on different grids the finer is averaged onto the coarser."""
    if one.shape != other.shape:
        grid = min(one.shape[0], other.shape[0]), min(one.shape[1], other.shape[1])
        one, other = on_grid(one, grid), on_grid(other, grid)
    if np.array_equal(one, other):  # also where a measure has no value, as the correlation of two constant maps
        return {measure.name: 1.0 for measure in MEASURES}
    return {measure.name: measure.compare(one, other) for measure in MEASURES}
