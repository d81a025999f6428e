"""MUTEX: attention as a network of patches; the model reads only the most central ones, by 54 measures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.methods.attention.readout import first_block
from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.passes import Passes
from gradskip_onnx.methods.patches import AttentionGroup, Patches
from gradskip_onnx.methods.table import Cost, Method, method
from gradskip_onnx.methods.windows import cells
from gradskip_onnx.types import Architecture, Array, Block, Needs, Relevance, Trace, read_only

from .token_masks import masked_probabilities, mean_score

SMALL = 1e-8  # added to the standard deviation it divides by
HEADS: Mapping[str, Callable[[Array], Array]] = {
    "min": lambda A: A.min(axis=0),
    "max": lambda A: A.max(axis=0),
    "sum": lambda A: A.sum(axis=0, dtype=np.float64),
}
DIRECTIONS = ("in", "out")


def entropy(C: Array) -> Array:
    """-sum_l q log q with q = C / sum_l C and 0 log 0 = 0."""
    total = C.sum(axis=0)
    q = np.divide(C, total, out=np.zeros_like(C), where=total > 0)
    return np.asarray(-(q * np.log(np.where(q > 0, q, 1.0))).sum(axis=0))


def spread(C: Array) -> Array:
    """The sample standard deviation over the layers; 0 for a single layer."""
    return np.asarray(C.std(axis=0, ddof=1)) if len(C) > 1 else np.zeros(C.shape[1])


def moment(C: Array, order: int) -> Array:
    """mean((C - m)^order) / mean((C - m)^2)^(order / 2) with m = mean(C); 0 if C is constant."""
    mean = C.mean(axis=0)
    power = np.square(C - mean).mean(axis=0)
    alive = power > np.square(np.finfo(C.dtype).eps * mean)  # smaller differences are rounding: C is constant
    above = ((C - mean) ** order).mean(axis=0)
    return np.asarray(np.divide(above, power ** (order / 2), out=np.zeros_like(mean), where=alive))


def kurtosis(C: Array) -> Array:
    """Excess kurtosis; 0 if C is constant."""
    fourth = moment(C, 4)
    return np.asarray(np.where(fourth > 0, fourth - 3, 0.0))


# Statistics over the layers of the centrality C: (L, n) -> (n,).
STATISTICS: Mapping[str, Callable[[Array], Array]] = {
    "entropy": entropy,
    "max": lambda C: C.max(axis=0),
    "min": lambda C: C.min(axis=0),
    "sum": lambda C: C.sum(axis=0),
    "std": spread,
    "sum over std": lambda C: C.sum(axis=0) / (spread(C) + SMALL),
    "median": lambda C: np.sort(C, axis=0)[(len(C) - 1) // 2],  # the lower of the two middle values
    "skewness": lambda C: moment(C, 3),
    "kurtosis": kurtosis,
}
MASKS = len(HEADS) * len(DIRECTIONS) * len(STATISTICS)


@dataclass(frozen=True, slots=True)
class MutexOptions:
    """The defaults are those of the reference."""

    min_cut: float = option(0.01, "attention below this share of a block's largest is taken as 0", low=0.0, high=1.0)
    ratio: float = option(0.5, "share of the patches below the threshold of a mask", low=1e-6, high=1.0)
    start: int = option(1, "number of the first block looked at", low=1)
    seed: int = option(0, "seed of the noise where pixels are masked", low=0)


def mutex(trace: Trace, architecture: Architecture, options: MutexOptions, passes: Passes) -> Relevance:
    """R_j = sum_m p_m M_mj / max(sum_m M_mj, 1), p_m the probability if only the patches of M_m are read."""
    keep = masks(trace, architecture, options)
    p, notes = masked_probabilities(trace, architecture, keep, passes, options.seed)
    return Relevance(
        scores=read_only(mean_score(p, keep).reshape(architecture.grid)),
        checks={"masks": float(len(keep)), "kept": float(keep.mean()), "uncovered": float((~keep.any(axis=0)).sum())},
        notes=notes,
    )


def masks(trace: Trace, architecture: Architecture, options: MutexOptions) -> Array:
    """(54, n) booleans: for each way to merge heads, direction and statistic, the patches at or above its threshold."""
    blocks = architecture.blocks[first_block(options.start, architecture) :]
    layers = [_centralities(trace, block, options.min_cut, architecture.grid) for block in blocks]
    found = [
        _upper(statistic(C), options.ratio)
        for of_merge in np.stack(layers, axis=2)  # (3, 2, L, n)
        for C in of_merge
        for statistic in STATISTICS.values()
    ]
    return np.stack(found)


def _centralities(trace: Trace, block: Block, min_cut: float, grid: tuple[int, int]) -> Array:
    """`_centrality` for each way to merge heads, (3, 2, n); the attention is looked up once."""
    groups = Patches(trace, block).attention_groups()
    return np.stack([_centrality(groups, block, merge, min_cut, grid) for merge in HEADS.values()])


def _centrality(
    groups: Sequence[AttentionGroup], block: Block, merge: Callable[[Array], Array], min_cut: float,
    grid: tuple[int, int],
) -> Array:  # fmt: skip
    """Sums of the attention that each patch receives and pays, (2, n) on the finest grid.

    With key reduction a key m stands for side^2 patches j: A_ij = A_im / side^2. Between windows attention is 0.
    """
    merged = [merge(group.attention).astype(np.float64) for group in groups]
    least = min_cut * max(float(B.max()) for B in merged)
    received, paid = np.zeros((2, block.grid.patches))
    for group, B in zip(groups, merged, strict=True):
        kept = np.where(least <= B, B, 0.0)
        received += group.from_keys(kept.sum(axis=0))
        paid[group.queries] += kept.sum(axis=1)
    return np.stack([received, paid])[:, cells(block.grid, grid)]


def _upper(values: Array, ratio: float) -> Array:
    """Whether each value is at or above the `ratio` quantile."""
    threshold = np.sort(values)[math.ceil(len(values) * ratio) - 1]
    return np.asarray(values >= threshold)


MUTEX = method(
    Method(
        name="mutex",
        summary="the model reads the patches that are central in its attention, by 54 ways of counting",
        reference="Marchetti, Traini, Ursino and Virgili, Multiplex Network-Based Representation of Vision "
        "Transformers for Visual Explainability, Neural Computing and Applications 37, 2025",
        options=MutexOptions,
        needs=lambda _, model: Needs(attention=model.every_block, tokens_in=model.first_block),
        run=mutex,
        cost=lambda _: Cost(1 + MASKS, 0, "all but one with about half of the patches"),
    )
)
