"""Faithfulness violation: signs and patches worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gradskip_onnx.metrics import METRICS, choose, measure
from gradskip_onnx.metrics.faithfulness import patch_weights

from .metric_samples import Counting, saliency, sample, weighted

ROW = "faithfulness-violation"
# 4 x 4 pixels of 1, patches of 2 x 2: the left two patches raise the probability by 0.25 each, the right ones lower it.
SIDES = np.kron([[1.0, -1.0], [1.0, -1.0]], np.full((2, 2), 1 / 16))
# strongest patch -> (violation, drop of the probability when it becomes 0)
CASES = {
    "positive where it helps": ([[3, 1], [0, 0]], 0.0, 0.25),
    "positive where it harms": ([[1, 3], [0, 0]], 1.0, -0.25),
    "negative where it harms": ([[1, -3], [2, 0]], 0.0, -0.25),
    "negative where it helps": ([[-3, 1], [0, 2]], 1.0, 0.25),
    "a zero map": ([[0, 0], [0, 0]], 0.0, 0.25),
}


@pytest.mark.parametrize("case", CASES)
def test_signs(case: str):
    scores, violation, drop = CASES[case]
    given = saliency(np.zeros((4, 4)), scores)
    (found,) = measure([choose(ROW, substrate="zero")], sample(np.ones((4, 4)), patch=2), given, weighted(SIDES))

    assert found.numbers["violation"] == violation
    assert found.numbers["drop"] == pytest.approx(drop)


def test_no_change_is_no_violation():
    """The mean of a constant image is the image."""
    given = saliency(np.zeros((4, 4)), [[1, -3], [0, 0]])
    (found,) = measure([choose(ROW, substrate="mean")], sample(np.ones((4, 4)), patch=2), given, weighted(SIDES))

    assert found.numbers["drop"] == 0
    assert found.numbers["violation"] == 0


def test_the_share_of_violations():
    row = choose(ROW, substrate="zero").row
    measured = [
        measure(
            [choose(ROW, substrate="zero")],
            sample(np.ones((4, 4)), patch=2),
            saliency(np.zeros((4, 4)), s),
            weighted(SIDES),
        )[0]
        for s, _, _ in CASES.values()
    ]

    assert row.over(measured) == pytest.approx(2 / 5)


def test_the_raw_map_decides_not_the_scaled_one():
    """After scaling to [0, 1] the strongest patch is another one; its sign would be lost."""
    scaled, raw = np.kron([[1, 0], [0.75, 0.75]], np.ones((2, 2))), [[1, -3], [0, 0]]
    (found,) = measure(
        [choose(ROW, substrate="zero")], sample(np.ones((4, 4)), patch=2), saliency(scaled, raw), weighted(SIDES)
    )

    assert found.numbers["weight"] == -3


def test_patch_weights_by_hand():
    """Finer and coarser scores than patches, and patches cut by the edge."""
    fine = saliency(np.zeros((4, 4)), np.arange(16).reshape(4, 4))
    np.testing.assert_allclose(patch_weights(fine, (4, 4), 2), [[2.5, 4.5], [10.5, 12.5]])
    np.testing.assert_allclose(patch_weights(fine, (4, 4), 3), [[5, 7], [13, 15]])
    coarse = saliency(np.zeros((4, 4)), [[1, 2], [3, 4]])
    np.testing.assert_allclose(patch_weights(coarse, (4, 4), 1), np.kron([[1, 2], [3, 4]], np.ones((2, 2))))


def test_option_overrides_the_patch_of_the_sample():
    """One patch as large as the image: all of 1 becomes 0, and the sides cancel."""
    given = saliency(np.zeros((4, 4)), [[3, 1], [0, 0]])
    score = Counting(weighted(np.abs(SIDES)))
    (found,) = measure([choose(ROW, substrate="zero", patch=4)], sample(np.ones((4, 4)), patch=2), given, score)

    assert found.numbers["drop"] == pytest.approx(1)
    assert found.numbers["weight"] == 1
    assert sum(score.batches) == METRICS[ROW].passes(METRICS[ROW].options()) == 2


def test_only_the_patch_is_replaced():
    seen = []

    def score(images):
        seen.append(images.copy())
        return np.zeros(len(images))

    measure(
        [choose(ROW, substrate="black")],
        sample(np.ones((4, 4)), patch=2, mean=(0.5,), std=(0.25,)),
        saliency(np.zeros((4, 4)), [[0, 1], [0, 0]]),
        score,
    )
    np.testing.assert_array_equal(seen[0][1, 0], [[1, 1, -2, -2], [1, 1, -2, -2], [1, 1, 1, 1], [1, 1, 1, 1]])
