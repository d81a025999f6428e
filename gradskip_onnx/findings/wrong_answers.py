"""Classes whose wrong answers look elsewhere than their right ones: distance of mean maps, tested by permutation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradskip_onnx.metrics.statistics import EXCHANGES, LEVEL, TIE, holm, resampled_means
from gradskip_onnx.types import Array

from .estimates import FEWEST, around, combined
from .found import Finding, Flag
from .observed import MOST_KEPT, NO_CLASS, Kept, Observed, distributions
from .row import EXAMPLES, Row, finding

SPAN = (-1.0, 1.0)
PURPOSE = 3  # of the draw
MOST = 400  # right, and as many wrong, answers of a class that are compared: drawn with the seed
AT_ONCE = 1 << 22  # values of permuted maps held at a time


@dataclass(frozen=True, slots=True, eq=False)
class Apart:
    """The right and wrong answers of a class compared."""

    gap: float  # share of the mean map that lies elsewhere, less what splits at random give
    error: float  # its standard error
    p: float
    count: int
    farthest: tuple[int, ...]  # positions of the wrong answers, those that look elsewhere most first


def wrong_answers(row: Row, observed: Observed) -> Finding:
    """For each class that was explained: how far the mean maps of its wrong and of its right answers lie apart."""
    classes, correct = observed.classes("target"), observed.number("correct")
    indices = np.unique(classes[classes != NO_CLASS])
    most = min(MOST, MOST_KEPT // max(1, 2 * len(indices)))
    explained = np.isin(observed.positions, observed.explained)
    groups: dict[int, tuple[Array, Array]] = {}
    for index in indices:
        right, wrong = (
            observed.draw(observed.positions[explained & (classes == index) & (correct == truth)], most, PURPOSE)
            for truth in (1, 0)
        )
        if min(len(right), len(wrong)) >= FEWEST:
            groups[int(index)] = (right, wrong)
    kept = observed.keep(part for pair in groups.values() for part in pair)
    parts = {index: compare(observed, kept, *pair) for index, pair in groups.items()}
    corrected = dict(zip(parts, holm([part.p for part in parts.values()]), strict=True))
    flagged = tuple(
        Flag(index, f"{parts[index].gap:.0%} of the relevance of its wrong answers lies elsewhere (p = {p:.3g})")
        for index, p in corrected.items()
        if p < LEVEL
    )
    measured = {index: (part.gap, part.error, part.count) for index, part in parts.items()}
    worst = sorted(parts.values(), key=lambda part: (part.p, -part.gap))
    examples = [position for part in worst for position in part.farthest]
    found = {index: around(*values[:2], SPAN, values[2]) for index, values in measured.items()}
    return finding(row, combined(measured, SPAN), found, examples=tuple(examples[:EXAMPLES]), flagged=flagged)


def compare(observed: Observed, kept: Kept, right: Array, wrong: Array) -> Apart:
    """The distance of two mean maps: half the sum of absolute differences, each map adding up to 1."""
    rng = np.random.default_rng((observed.seed, int(right[0]), int(wrong[0])))
    one, other = (distributions(kept.of(part)) for part in (right, wrong))
    found = float(distance(one.mean(axis=0), other.mean(axis=0)))
    permuted = _permuted(np.concatenate([one, other]), len(one), rng)
    drawn = distance(*(resampled_means(maps, observed.resamples, observed.seed) for maps in (one, other)))
    p = (1 + int((permuted >= found - TIE).sum())) / (1 + len(permuted))
    away = distance(other, one.mean(axis=0))
    farthest = wrong[np.argsort(-away, kind="stable")]
    gap = found - float(permuted.mean())
    return Apart(gap, float(drawn.std()), p, len(one) + len(other), tuple(int(at) for at in farthest[:EXAMPLES]))


def distance(one: Array, other: Array) -> Array:
    """The share that would have to move to turn one distribution (..., cells) into the other."""
    return np.asarray(np.abs(one - other).sum(axis=-1) / 2)


def _permuted(maps: Array, first: int, rng: np.random.Generator) -> Array:
    """The distances of the mean maps of EXCHANGES random splits into `first` and the rest."""
    total, found = maps.sum(axis=0), []
    step = max(1, AT_ONCE // (len(maps) + maps.shape[1]))
    for start in range(0, EXCHANGES, step):
        order = rng.permuted(np.tile(np.arange(len(maps)), (min(step, EXCHANGES - start), 1)), axis=1)
        chosen = (order < first).astype(np.float64)  # (splits, maps)
        sums = chosen @ maps
        found.append(distance(sums / first, (total - sums) / (len(maps) - first)))
    return np.concatenate(found)
