"""Bootstrap intervals of any metric, and the significance tests of the paper's ablation, by SciPy."""

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
AT_ONCE = 1 << 20  # indices drawn at a time


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
    low, high = _range(row.finish(_resampled(table, resamples, seed)), level)
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
    if len(ours) != len(theirs):
        raise InputError(f"paired methods need the same images, got {len(ours)} and {len(theirs)} results")
    pairs = [(row.read(a), row.read(b)) for a, b in zip(ours, theirs, strict=True)]
    kept = [np.concatenate([a, b]) for a, b in pairs if a is not None and b is not None]
    if not kept:
        return None
    table, width = np.stack(kept), len(row.terms)

    def gap(means: Array) -> Array:
        return np.asarray(row.finish(means[..., :width]) - row.finish(means[..., width:]))

    low, high = _range(gap(_resampled(table, resamples, seed)), level)
    return Interval(float(gap(table.mean(axis=0))), low, high, len(table))


def _resampled(table: Array, resamples: int, seed: int) -> Array:
    """Means of the terms over images drawn with repetition, (resamples, terms), from `table` (images, terms)."""
    rng = np.random.default_rng(seed)
    count, step = len(table), max(1, AT_ONCE // len(table))
    parts = [
        table[rng.integers(count, size=(min(step, resamples - start), count))].mean(axis=1)
        for start in range(0, resamples, step)
    ]
    return np.concatenate(parts)


def _range(values: Array, level: float) -> tuple[float, float]:
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
