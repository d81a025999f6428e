"""Bootstrap intervals and a test of paired differences of any metric, Holm's correction, and SciPy's tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradskip_onnx.errors import InputError
from gradskip_onnx.imports.optional import import_optional
from gradskip_onnx.methods.gradskip.gini import GINI
from gradskip_onnx.methods.gradskip.quartiles import entropy as entropy_of_heads
from gradskip_onnx.types import Array

from .table import Measured, Metric

RESAMPLES = 2000
EXCHANGES = 9999  # of two methods; the smallest p is 1 / (1 + EXCHANGES)
LEVEL = 0.05  # a corrected p below tells two methods apart
TIE = 1e-12  # sums in another order round otherwise
AT_ONCE = 1 << 20  # values drawn at a time


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and its confidence interval."""

    value: float
    low: float
    high: float
    count: int  # images that are not excluded


@dataclass(frozen=True, slots=True)
class Significance:
    """A test statistic and its p-value."""

    statistic: float
    p: float


NOTHING = Significance(0.0, 1.0)  # for values without variation, where SciPy returns NaN


def interval(
    row: Metric, many: Sequence[Measured], *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Interval | None:
    """Percentile bootstrap over images; None if every image is excluded."""
    terms = [found for found in map(row.read, many) if found is not None]
    if not terms:
        return None
    table = np.stack(terms)
    low, high = percentiles(row.finish(resampled_means(table, resamples, seed)), level)
    return Interval(float(row.finish(table.mean(axis=0))), low, high, len(table))


def paired(
    row: Metric,
    ours: Sequence[Measured],
    theirs: Sequence[Measured],
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval | None:
    """The interval of ours minus theirs on the same images; each resample draws the same images for both."""
    kept = _both(row, ours, theirs)
    if not kept:
        return None
    table, width = np.stack([np.concatenate(pair) for pair in kept]), len(row.terms)

    def gap(means: Array) -> Array:
        return np.asarray(row.finish(means[..., :width]) - row.finish(means[..., width:]))

    low, high = percentiles(gap(resampled_means(table, resamples, seed)), level)
    return Interval(float(gap(table.mean(axis=0))), low, high, len(table))


def exchange_test(row: Metric, ours: Sequence[Measured], theirs: Sequence[Measured], *, seed: int = 0) -> float | None:
    """p of the difference of two methods in any metric, two-sided; None without images.

    If the methods were the same, exchanging their results on any image would change nothing: p is the share of random
    exchanges, the one that changes nothing among them, whose difference is at least as large.
    """
    kept = _both(row, ours, theirs)
    if not kept:
        return None
    a, b = (np.stack(terms) for terms in zip(*kept, strict=True))
    exchanged = np.random.default_rng(seed).integers(2, size=(EXCHANGES, len(a))).astype(np.float64)
    moved = exchanged @ (b - a) / len(a)

    def gap(one: Array, other: Array) -> Array:
        return np.asarray(np.abs(row.finish(one) - row.finish(other)))

    found = gap(a.mean(axis=0) + moved, b.mean(axis=0) - moved)
    as_large = found >= gap(a.mean(axis=0), b.mean(axis=0)) - TIE
    return float((1 + as_large.sum()) / (1 + EXCHANGES))


def holm(ps: Sequence[float]) -> list[float]:
    """p-values corrected for their number by Holm's step-down method, in the order given.

    With p_(1) <= ... <= p_(m), the corrected p_(k) is the largest of min(1, (m - j + 1) p_(j)) for j <= k. If each is
    compared with the same level, the chance of one or more false findings stays below that level, whatever depends on
    what.
    """
    corrected, largest = [0.0] * len(ps), 0.0
    for done, at in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - done) * ps[at]))
        corrected[at] = largest
    return corrected


def _both(row: Metric, ours: Sequence[Measured], theirs: Sequence[Measured]) -> list[tuple[Array, Array]]:
    """The terms of the images that neither method excludes."""
    if len(ours) != len(theirs):
        raise InputError(f"paired methods need the same images, got {len(ours)} and {len(theirs)} results")
    pairs = [(row.read(a), row.read(b)) for a, b in zip(ours, theirs, strict=True)]
    return [(a, b) for a, b in pairs if a is not None and b is not None]


def resampled_means(table: Array, resamples: int, seed: int) -> Array:
    """Means of the terms over images drawn with repetition, (resamples, terms), from `table` (images, terms)."""
    rng = np.random.default_rng(seed)
    count, step = len(table), max(1, AT_ONCE // table.size)
    parts = [
        table[rng.integers(count, size=(min(step, resamples - start), count))].mean(axis=1)
        for start in range(0, resamples, step)
    ]
    return np.concatenate(parts)


def percentiles(values: Array, level: float) -> tuple[float, float]:
    """The ends of the middle part of resampled values that holds a share of `level`."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def spearman(one: Sequence[float] | Array, other: Sequence[float] | Array) -> Significance:
    """Rank correlation with average ranks for ties and p by the t approximation; 0 if one side is constant."""
    a, b = _columns(one, other)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return NOTHING
    return _significance(import_optional("scipy.stats").spearmanr(a, b))


def anova(groups: Sequence[Sequence[float] | Array]) -> Significance:
    """One-way analysis of variance: variance between groups over variance within, which must not be 0 in all."""
    columns = [np.asarray(group, np.float64) for group in groups]
    if all(np.ptp(column) == 0 for column in columns):
        raise InputError("an analysis of variance needs groups in which values differ; all of them are constant")
    return _significance(import_optional("scipy.stats").f_oneway(*columns))


def friedman(groups: Sequence[Sequence[float] | Array]) -> Significance:
    """Friedman's test of three or more groups that are measured on the same images."""
    columns = _columns(*groups)
    if len(columns) < 3:
        raise InputError(f"Friedman's test compares three or more groups, got {len(columns)}; use wilcoxon for two")
    if all(np.array_equal(column, columns[0]) for column in columns):
        return NOTHING
    return _significance(import_optional("scipy.stats").friedmanchisquare(*columns))


def wilcoxon(one: Sequence[float] | Array, other: Sequence[float] | Array) -> Significance:
    """Wilcoxon's signed-rank test of paired values, two-sided; equal pairs are dropped."""
    a, b = _columns(one, other)
    if np.array_equal(a, b):
        return NOTHING
    return _significance(import_optional("scipy.stats").wilcoxon(a, b, zero_method="wilcox", alternative="two-sided"))


def gini(attention: Array) -> Array:
    """Gini coefficient over all values of each head, (heads,), of attention (heads, queries, keys)."""
    return GINI["head"]([[attention]])[0]


def entropy(attention: Array) -> Array:
    """Shannon entropy of each head in nats, (heads,), its values scaled to sum 1; 0 for a head of zeros."""
    return entropy_of_heads([attention])


def _columns(*values: Sequence[float] | Array) -> list[Array]:
    columns = [np.asarray(column, np.float64) for column in values]
    lengths = {column.shape for column in columns}
    if len(lengths) != 1 or len(columns[0]) < 3:
        raise InputError(f"a test of paired values needs three or more pairs, got columns of {sorted(lengths)}")
    if not all(np.isfinite(column).all() for column in columns):
        raise InputError("a test cannot be made on NaN or infinite values")
    return columns


def _significance(found: Any) -> Significance:
    statistic, p = found
    return Significance(float(statistic), float(p))
