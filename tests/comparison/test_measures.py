"""Similarities of two maps: hand-worked cases."""

from __future__ import annotations

import numpy as np
import pytest

from gradskip_onnx.comparison.measures import MEASURES, compare_maps, ndcg, overlap

pytest.importorskip("sklearn")
NAMES = {measure.name for measure in MEASURES}


def test_equal_maps_are_alike_in_every_measure():
    assert compare_maps(np.ones((3, 3)), np.ones((3, 3))) == dict.fromkeys(NAMES, 1.0)


def test_overlap_of_the_areas_with_half_of_the_relevance():
    """Areas: {8} of the first (8 of 14), {6, 5} of the second (11 of 14, 6 alone is less than half): 1 of 2 places."""
    one, other = np.array([[8.0, 3.0], [2.0, 1.0]]), np.array([[6.0, 5.0], [2.0, 1.0]])

    assert overlap(one, other) == 0.5
    assert overlap(one, -other) == 0.0
    assert np.isnan(overlap(-one, -other))


def test_ndcg_is_the_gain_of_the_second_order_over_the_best():
    """Gains 3, 2, 1; the second map ranks them 1, 3, 2 (of the gain 2 and 1 exchanged)."""
    one, other = np.array([[3.0, 2.0, 1.0, -4.0]]), np.array([[9.0, 4.0, 5.0, 1.0]])

    discounts = 1 / np.log2([2, 3, 4])
    expected = np.dot([3, 1, 2], discounts) / np.dot([3, 2, 1], discounts)
    assert ndcg(one, other) == pytest.approx(expected)
    assert ndcg(one, 2 * one) == pytest.approx(1.0)
    assert np.isnan(ndcg(-np.abs(one), other))


def test_places_of_equal_rank_share_their_discounts():
    one = np.array([[1.0, 0.0]])

    assert ndcg(one, np.zeros((1, 2))) == pytest.approx((1 + 1 / np.log2(3)) / 2)


def test_rank_correlation_and_reversal():
    one = np.arange(6.0).reshape(2, 3)

    found = compare_maps(one, -one)

    assert found["spearman"] == pytest.approx(-1.0)
    assert compare_maps(one, one**3)["spearman"] == pytest.approx(1.0)


def test_the_finer_of_two_grids_is_averaged():
    coarse = np.arange(4.0).reshape(2, 2)
    fine = np.kron(coarse, np.ones((4, 4)))

    assert compare_maps(fine, coarse)["spearman"] == pytest.approx(1.0)
    assert compare_maps(coarse, fine)["spearman"] == pytest.approx(1.0)
