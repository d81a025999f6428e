"""Means, shares and the classes that stand out: hand-worked cases and independent computations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradskip_onnx.findings.estimates import (
    FEWEST,
    MANY,
    around,
    below_zero,
    combined,
    estimates,
    mean,
    share,
    share_change,
    share_gap,
    standing_out,
)
from gradskip_onnx.findings.observed import NO_CLASS

stats = pytest.importorskip("scipy.stats")
UNIT = (0.0, 1.0)


@pytest.mark.parametrize(
    ("ones", "count", "low", "high"),
    [
        (3, 10, 0.0667, 0.6525),  # the textbook values of Clopper and Pearson
        (0, 10, 0.0, 0.3085),  # 1 - 0.025^(1/10)
        (10, 10, 0.6915, 1.0),
        (1, 1, 0.025, 1.0),
    ],
)
def test_a_share_has_the_exact_interval(ones, count, low, high):
    found = share(np.array([1.0] * ones + [0.0] * (count - ones)))

    assert (found.value, found.count) == (ones / count, count)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)


def test_the_mean_of_equal_values_is_certain():
    found = mean(UNIT, 500, 0)(np.full(7, 0.25))

    assert (found.value, found.low, found.high, found.count) == (0.25, 0.25, 0.25, 7)


def test_one_image_alone_says_only_what_is_possible():
    found = mean((-1.0, 1.0), 500, 0)(np.array([0.3]))

    assert (found.value, found.low, found.high, found.count) == (0.3, -1.0, 1.0, 1)


def test_the_bootstrap_agrees_with_the_normal_interval_where_both_hold():
    """400 uniform values: the standard error is known, and the central limit theorem applies."""
    values = np.random.default_rng(0).random(400)

    found = mean(UNIT, 4000, 0)(values)

    half = 1.96 * values.std(ddof=1) / 20
    assert found.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_many_images_take_the_normal_interval():
    values = np.tile([0.0, 1.0], MANY)

    found = mean(UNIT, 10, 0)(values)  # ten draws would be a coarse bootstrap

    assert found.low == pytest.approx(0.5 - 1.96 * 0.5 / np.sqrt(2 * MANY), abs=1e-5)


def test_an_interval_stays_within_what_is_possible():
    found = around(0.95, 0.1, UNIT, 20)

    assert (found.high, round(found.low, 3)) == (1.0, 0.754)


def test_estimates_leave_out_what_is_not_known():
    values, classes = np.array([1.0, np.nan, 0.0, 1.0]), np.array([0, 0, 1, NO_CLASS])

    overall, by_class = estimates(values, classes, share)

    assert overall is not None
    assert overall.count == 3
    assert {index: (found.value, found.count) for index, found in by_class.items()} == {0: (1.0, 1), 1: (0.0, 1)}


def test_estimates_of_nothing_are_absent():
    assert estimates(np.array([np.nan]), np.array([0]), share) == (None, {})


def test_the_mean_over_classes_is_weighted_by_images():
    found = combined({0: (0.2, 0.1, 10), 1: (0.8, 0.2, 30)}, UNIT)

    assert found is not None
    assert found.value == pytest.approx(0.65)  # (0.2 * 10 + 0.8 * 30) / 40
    error = np.hypot(0.1 / 4, 0.2 * 3 / 4)
    assert found.high - found.value == pytest.approx(1.96 * error, abs=1e-5)


def slow_twin(values: Any, classes: Any) -> dict[int, float]:
    """Each class against all others by both of SciPy's tests on the values themselves, Holm's steps by hand."""
    found = {}
    indices = [index for index in np.unique(classes) if (classes == index).sum() >= FEWEST]
    ps = {
        i: max(stats.ttest_ind(values[classes == i], values[classes != i], equal_var=e).pvalue for e in (True, False))
        for i in indices
    }
    for rank, index in enumerate(sorted(indices, key=ps.__getitem__)):
        if ps[index] * (len(indices) - rank) >= 0.05:
            break
        one, other = values[classes == index], values[classes != index]
        gap = one.mean() - other.mean()
        if abs(gap) >= 0.8 * np.sqrt((one.var(ddof=1) + other.var(ddof=1)) / 2):
            found[int(index)] = gap
    return found


@pytest.mark.parametrize("seed", range(6))
def test_classes_that_stand_out_are_those_of_the_slow_twin(seed):
    rng = np.random.default_rng(seed)
    classes = rng.integers(6, size=200)
    values = rng.normal(size=200) + np.where(classes == 4, 0.4 * seed, 0.0)

    found = standing_out(values, classes)

    assert found == pytest.approx(slow_twin(values, classes))
    assert (4 in found) == (seed >= 3)  # a shift of 1.2 standard deviations and more


def test_a_small_difference_is_not_named_however_sure():
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1, 2], 4000)

    assert standing_out(rng.normal(size=12000) + 0.3 * (classes == 1), classes) == {}


def test_without_any_spread_a_difference_is_beyond_doubt():
    classes = np.repeat([0, 1], FEWEST)

    assert standing_out((classes == 1).astype(float), classes) == {0: -1.0, 1: 1.0}
    assert standing_out(np.ones(2 * FEWEST), classes) == {}


def test_a_class_whose_few_images_agree_by_chance_does_not_stand_out():
    """Five of five ones among one in two: Welch's test alone takes the class for one without spread."""
    classes = np.repeat([0, 1], [5, 60])
    values = np.append(np.ones(5), np.tile([0.0, 1.0], 30))
    assert values[:5].std() == 0
    assert stats.fisher_exact([[5, 0], [30, 30]]).pvalue > 0.05

    assert standing_out(values, classes) == {}


@pytest.mark.parametrize("images", [5, 12])
def test_classes_that_do_not_differ_rarely_stand_out(images):
    """200 sets of ten equal classes: at most 5 % may name one. Welch's test alone named one in 58 and in 14 %."""
    rng, classes = np.random.default_rng(0), np.repeat(np.arange(10), images)

    named = sum(bool(standing_out((rng.random(len(classes)) < 0.6).astype(float), classes)) for _ in range(200))

    assert named / 200 <= 0.05


def test_below_zero_needs_images_and_a_doubtless_mean():
    few = np.full(FEWEST - 1, -1.0)
    assert below_zero(few, np.ones(len(few)), np.zeros(len(few), int)) == (False, [])

    rng = np.random.default_rng(0)
    values = rng.normal(size=60) + np.repeat([-1.5, 0.0, 1.0], 20)
    overall, classes = below_zero(values, np.full(60, 3.0), np.repeat([0, 1, 2], 20))
    assert classes == [0]
    with_best = np.append(values, 3.0)
    assert overall == bool(stats.ttest_1samp(with_best, 0, alternative="less").pvalue < 0.05)
    assert below_zero(np.full(8, -0.1), np.full(8, -0.1), np.zeros(8, int)) == (True, [0])
    unknown = np.append(np.full(8, -0.5), np.nan)  # no gap, and so no part in what was possible
    assert below_zero(unknown, np.append(np.full(8, 0.1), 1e9), np.zeros(9, int)) == (True, [0])


@pytest.mark.parametrize(("images", "area"), [(5, 0.03), (5, 0.36), (20, 0.1), (100, 0.03), (100, 0.36)])
def test_maps_at_random_places_are_rarely_worse_than_chance(images, area):
    """Maps of a single point, which lie on the object as often as its area says: images that all miss it are common."""
    rng, classes = np.random.default_rng(0), np.zeros(images, int)
    draws = ((rng.random(images) < area).astype(float) - area for _ in range(400))

    named = sum(below_zero(gaps, np.full(images, 1 - area), classes)[0] for gaps in draws)

    assert named / 400 <= 0.07  # 5 %, and two standard errors of this count


@pytest.mark.parametrize("images", [2, 5, 10])
def test_intervals_of_few_images_hold_the_mean(images):
    """The percentile bootstrap by itself holds it in 50, 86 and 87 of 100 sets."""
    rng = np.random.default_rng(0)
    found = [mean(UNIT, 200, 0)(rng.beta(2, 5, images)) for _ in range(400)]

    assert np.mean([one.low <= 2 / 7 <= one.high for one in found]) >= 0.92


def test_a_change_of_a_share_is_that_of_agresti_and_min():
    """Of 40 pairs 5 gain and 1 loses: the interval of McNemar's counts with half an image added to each of the four."""
    change = np.array([1.0] * 5 + [-1.0] + [0.0] * 34)

    found = share_change(change)

    centre, error = 4 / 42, ((7 - 16 / 42) / 42**2) ** 0.5
    assert (found.value, found.count) == (0.1, 40)
    assert (found.low, found.high) == pytest.approx((centre - 1.96 * error, centre + 1.96 * error), abs=1e-5)


def test_a_share_without_a_change_is_not_certain():
    none, half = np.zeros(10), np.tile([0.0, 1.0], 5)

    assert share_change(none).low == pytest.approx(-1.96 / 12, abs=1e-5)  # n = 12, and one change among them
    found = share_gap(np.ones(10), half)
    assert found.value == 0.5
    error = (11 / 12 * 1 / 12 / 12 + 0.25 / 12) ** 0.5
    assert (found.low, found.high) == pytest.approx((5 / 12 - 1.96 * error, 5 / 12 + 1.96 * error), abs=1e-5)
