"""Wrong answers that look elsewhere: distances by hand, and a test that finds them and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from gradskip_onnx.findings.table import ROWS
from gradskip_onnx.findings.wrong_answers import distance, wrong_answers

from .made_audits import anywhere, in_corner, observed_of

pytest.importorskip("pyarrow")
pytest.importorskip("scipy")
ROW = next(row for row in ROWS if row.name == "wrong-answers")


def test_the_distance_is_what_would_have_to_move():
    assert distance(np.array([0.5, 0.5, 0.0]), np.array([0.5, 0.0, 0.5])) == pytest.approx(0.5)
    assert distance(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1.0


def test_wrong_answers_elsewhere_are_flagged_with_their_images(tmp_path):
    """Right ones look at the left column, wrong ones at the right column: everything would have to move."""
    left, right = np.array([[1.0, 0.0]] * 2), np.array([[0.0, 1.0]] * 2)
    maps, correct = [left] * 12 + [right] * 8, [True] * 12 + [False] * 8

    found = wrong_answers(ROW, observed_of(tmp_path, maps, [1] * 20, correct=correct))

    assert found.overall is not None
    # Of a random split into 12 and 8 with j right ones among the 8, the distance is |j/8 - (8-j)/12|.
    expected = [abs(j / 8 - (8 - j) / 12) for j in range(9)]
    ways = [hypergeometric(j) for j in range(9)]
    assert found.overall.value == pytest.approx(1.0 - np.dot(expected, ways), abs=0.01)  # 9999 random splits
    assert found.classes[1].count == 20
    assert set(found.examples) <= set(range(12, 20))
    assert [flag.index for flag in found.flagged] == [1]


def hypergeometric(j: int) -> float:
    """The probability that 8 of 20 drawn without order hold j of the 8 special ones."""
    from math import comb

    return comb(8, j) * comb(12, 8 - j) / comb(20, 8)


def test_wrong_answers_at_the_same_places_are_not(tmp_path):
    maps, correct = anywhere(60, seed=3), [at % 3 > 0 for at in range(60)]

    found = wrong_answers(ROW, observed_of(tmp_path, maps, [0, 1] * 30, correct=correct))

    assert found.flagged == ()
    assert found.overall is not None
    assert found.overall.low <= 0 <= found.overall.high


def test_one_class_among_three_is_singled_out(tmp_path):
    maps = anywhere(60, seed=4) + anywhere(20, seed=5) + in_corner(10)
    targets, correct = (
        [0, 1] * 30 + [2] * 30,
        [at % 2 < 1 or at % 3 > 0 for at in range(60)] + [True] * 20 + [False] * 10,
    )

    found = wrong_answers(ROW, observed_of(tmp_path, maps, targets, correct=correct))

    assert [flag.index for flag in found.flagged] == [2]


def test_too_few_answers_of_a_kind_are_not_compared(tmp_path):
    found = wrong_answers(ROW, observed_of(tmp_path, anywhere(20), [0] * 20, correct=[True] * 16 + [False] * 4))

    assert (found.overall, found.classes, found.flagged) == (None, {}, ())
