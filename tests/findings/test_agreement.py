"""Agreement within a class against its definition, pair by pair, and its error against the jackknife."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from gradskip_onnx.findings.agreement import agreement, jackknife_error, with_others
from gradskip_onnx.findings.table import ROWS

from .made_audits import anywhere, in_corner, observed_of

pytest.importorskip("pyarrow")
pytest.importorskip("scipy")
ROW = next(row for row in ROWS if row.name == "agreement")


def test_two_opposite_maps_and_two_equal_ones(tmp_path):
    """By hand: a map and its negative correlate by -1, a map and its double by 1."""
    one = np.arange(6.0).reshape(2, 3)
    observed = observed_of(tmp_path, [one, -one, one, 2 * one], [0, 0, 1, 1])

    assert with_others(observed) == pytest.approx([-1, -1, 1, 1])
    found = agreement(ROW, observed)
    assert {index: part.value for index, part in found.classes.items()} == pytest.approx({0: -1, 1: 1})
    assert found.overall is not None
    assert found.overall.value == pytest.approx(0.0)


def test_a_class_of_two_widens_the_interval_no_more_than_it_can(tmp_path):
    """The error of one pair is not known, but correlations lie within -1 and 1: it is 1 at most."""
    maps, targets = [*in_corner(38), *anywhere(2)], [0] * 38 + [1] * 2
    found = agreement(ROW, observed_of(tmp_path, maps, targets)).overall

    assert found is not None
    assert found.value - found.low == pytest.approx(1.96 * 2 / 40, rel=0.05)


def test_it_is_the_mean_over_all_pairs(tmp_path):
    maps = [*anywhere(9), *in_corner(7)]
    targets = [0] * 9 + [1] * 7

    found = agreement(ROW, observed_of(tmp_path, maps, targets))

    for index, first, last in ((0, 0, 9), (1, 9, 16)):
        pairs = [np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in combinations(maps[first:last], 2)]
        assert found.classes[index].value == pytest.approx(np.mean(pairs), abs=1e-5)  # maps are stored as float32
        assert found.classes[index].count == last - first
        assert found.classes[index].low < np.mean(pairs) < found.classes[index].high


def test_constant_maps_and_lone_images_have_no_value(tmp_path):
    one = np.arange(6.0).reshape(2, 3)
    flat = np.full((2, 3), 0.1)

    values = with_others(observed_of(tmp_path, [one, flat, one, one], [0, 0, 0, 1]))

    assert values[[0, 2]] == pytest.approx([1, 1])
    assert np.isnan(values[[1, 3]]).all()


def test_maps_of_several_sizes_meet_on_one_grid(tmp_path):
    large = np.kron(np.arange(6.0).reshape(2, 3), np.ones((12, 12)))  # 24 x 36, more than the common grid holds

    values = with_others(observed_of(tmp_path, [large, 3 * large], [0, 0]))

    assert values == pytest.approx([1, 1])


def test_the_error_is_that_of_the_jackknife():
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(8, 5))
    directions -= directions.mean(axis=1, keepdims=True)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    products = directions @ directions.T

    def mean_of_pairs(kept: list[int]) -> Any:
        return np.mean([products[a, b] for a, b in combinations(kept, 2)])

    n = len(directions)
    without = np.array([mean_of_pairs([i for i in range(n) if i != left]) for left in range(n)])
    expected = np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
    assert jackknife_error((products.sum(axis=1) - 1) / (n - 1)) == pytest.approx(expected)
    assert jackknife_error(np.array([0.5, 0.5])) == np.inf


@pytest.mark.slow
def test_the_interval_holds_the_truth_as_often_as_it_says(tmp_path):
    """Directions around a fixed one: the correlation of two is known from many; 200 small samples of 12 are drawn."""
    rng = np.random.default_rng(0)
    pattern = np.tile([1.0, -1.0], 8)

    def sample(count: int) -> Any:
        return pattern + 1.5 * rng.standard_normal((count, 16))

    many = sample(4000)
    many -= many.mean(axis=1, keepdims=True)
    many /= np.linalg.norm(many, axis=1, keepdims=True)
    truth = (np.linalg.norm(many.sum(axis=0)) ** 2 - len(many)) / (len(many) * (len(many) - 1))
    held = 0
    for number in range(200):
        maps = sample(12).reshape(-1, 4, 4)
        found = agreement(ROW, observed_of(tmp_path / str(number), maps, [0] * 12)).overall
        held += int(found is not None and found.low <= truth <= found.high)
    assert 0.88 <= held / 200 <= 1.0  # 0.95 but for chance (3 standard errors are 0.046) and small samples


def test_a_class_that_always_looks_at_one_place_is_flagged(tmp_path):
    maps, targets = [*anywhere(40), *in_corner(20)], [0, 1] * 20 + [2] * 20

    found = agreement(ROW, observed_of(tmp_path, maps, targets))

    assert 2 in [flag.index for flag in found.flagged]
    assert "more than the other classes" in next(flag.why for flag in found.flagged if flag.index == 2)
