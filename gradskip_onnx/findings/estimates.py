"""Means and shares with intervals, overall and by class, and the tests that single out a class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from gradskip_onnx.imports.optional import import_optional
from gradskip_onnx.metrics.statistics import LEVEL, Interval, holm, percentiles, resampled_means
from gradskip_onnx.types import Array

from .observed import NO_CLASS, ROUNDING

COVERAGE = 0.95
NORMAL = 1.959964  # quantile of the normal distribution: a coverage of 95 %
CHANGE = (-1.0, 1.0)  # of a share
MANY = 5000  # from so many images on, the bootstrap of a mean and the normal interval are the same to three digits
FEWEST = 5  # images of a class below which no test is made
LARGE = (
    0.8  # difference in standard deviations that Cohen (1988) calls large; small ones are always significant in bulk
)

Estimate = Callable[[Array], Interval]


def mean(span: tuple[float, float], resamples: int, seed: int) -> Estimate:
    """The mean with a percentile bootstrap interval, or with Student's on a side where that reaches farther.

    Resamples of a few images miss what these do not show: of two they hold the mean in half of all cases, of ten in
    nine of ten. One image alone says nothing but that it lies within `span`.
    """

    def estimate(values: Array) -> Interval:
        count, value = len(values), float(values.mean())
        if count == 1:
            return Interval(value, *span, 1)
        error = float(values.std(ddof=1)) / count**0.5
        if count > MANY:
            return around(value, error, span, count)
        low, high = percentiles(resampled_means(values[:, None], resamples, seed), COVERAGE)
        wide = around(value, error, span, count, student(count - 1))
        return Interval(value, min(low, wide.low), max(high, wide.high), count)

    return estimate


def share(values: Array) -> Interval:
    """The share of ones among zeros and ones, with the exact interval of Clopper and Pearson."""
    test = import_optional("scipy.stats", "audit").binomtest(int(values.sum()), len(values))
    low, high = test.proportion_ci(COVERAGE, "exact")
    return Interval(float(values.mean()), float(low), float(high), len(values))


def share_change(change: Array) -> Interval:
    """The mean of changes -1, 0 and 1 of a share, with the interval of Agresti and Min (2005) for matched pairs.

    Half an image is added to each of the four outcomes, so that a few images without any change are not certain.
    """
    count, gained, lost = len(change) + 2, float((change > 0).sum()) + 0.5, float((change < 0).sum()) + 0.5
    centre = (gained - lost) / count
    found = around(centre, float(((gained + lost) / count - centre**2) / count) ** 0.5, CHANGE, len(change))
    return Interval(float(change.mean()), found.low, found.high, len(change))


def share_gap(ours: Array, theirs: Array) -> Interval:
    """The difference of two shares of different images, with the interval of Agresti and Caffo (2000).

    One image of each outcome is added to either side.
    """
    shares, counts = zip(*(((part.sum() + 1) / (len(part) + 2), len(part) + 2) for part in (ours, theirs)), strict=True)
    error = sum(one * (1 - one) / count for one, count in zip(shares, counts, strict=True)) ** 0.5
    found = around(float(shares[0] - shares[1]), float(error), CHANGE, min(len(ours), len(theirs)))
    return Interval(float(ours.mean() - theirs.mean()), found.low, found.high, found.count)


def around(value: float, error: float, span: tuple[float, float], count: int, quantile: float = NORMAL) -> Interval:
    """The normal interval of a value with this standard error, or that of another quantile, cut to what is possible."""
    low, high = np.clip((value - quantile * error, value + quantile * error), *span)
    return Interval(value, float(low), float(high), count)


def student(freedom: float) -> float:
    """The quantile of Student's distribution that takes the place of the normal one where an error is estimated."""
    return float(import_optional("scipy.stats", "audit").t.ppf((1 + COVERAGE) / 2, freedom))


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

    Welch's test and Student's, of which the larger p counts, corrected for the number of classes by Holm's method; the
    difference must also be large (Cohen's d). Welch's alone believes the spread of a class of five images, which may
    agree by chance; Student's alone that all classes spread alike.
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
    described = (means, np.sqrt(variances), counts, other_means, np.sqrt(other_variances), others)
    test = import_optional("scipy.stats", "audit").ttest_ind_from_stats
    pvalues = np.maximum(*(test(*described, equal_var=equal).pvalue for equal in (False, True)))
    spreads = np.sqrt((variances + other_variances) / 2)
    large = np.abs(differences) >= LARGE * spreads
    # without any spread SciPy gives NaN: equal then, or different beyond doubt
    ps = np.where(spreads > 0, pvalues, (differences == 0).astype(float))
    corrected = holm(ps.tolist())
    return {
        index: float(difference)
        for index, difference, p, is_large in zip(parts, differences, corrected, large, strict=True)
        if p < LEVEL and is_large and difference != 0
    }


def below_zero(gaps: Array, best: Array, classes: Array) -> tuple[bool, list[int]]:
    """Whether the mean of all gaps lies below 0 beyond doubt, and the classes of which it does (t-test, Holm).

    To each sample one image is added whose gap is the mean of the `best` that were possible. Maps that are small points
    miss a small object nearly always by chance, and the images that missed it have no spread that would say so.
    """
    parts = {index: gap for index, gap in groups(gaps, classes) if len(gap) >= FEWEST}
    added = dict(groups(np.where(np.isnan(gaps), np.nan, best), classes))
    known = ~np.isnan(gaps)
    overall = known.sum() >= FEWEST and _p_below(gaps[known], best[known]) < LEVEL
    corrected = holm([_p_below(part, added[index]) for index, part in parts.items()])
    return bool(overall), [index for index, p in zip(parts, corrected, strict=True) if p < LEVEL]


def _p_below(gaps: Array, best: Array) -> float:
    sample = np.append(gaps, best.mean())
    if np.ptp(sample) <= ROUNDING:
        return float(sample[0] >= -ROUNDING)
    return float(import_optional("scipy.stats", "audit").ttest_1samp(sample, 0.0, alternative="less").pvalue)


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
