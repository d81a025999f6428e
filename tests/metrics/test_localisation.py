"""Pointing game, pixel accuracy and IoU: grids of digits with the answer counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gradskip_onnx.images import interpolate
from gradskip_onnx.metrics import METRICS, choose, measure
from gradskip_onnx.metrics.pointing import box_mask
from gradskip_onnx.metrics.segmentation import RULES, otsu

from .metric_samples import grid, never, saliency, sample

IMAGE = np.zeros((3, 4))
MASK = grid(["0110", "0110", "0000"])  # 4 of 12


def one(name: str, values, *, mask=None, boxes=None, **options):
    given = sample(np.zeros(np.shape(values)), mask=mask, boxes=boxes)
    return measure([choose(name, **options)], given, saliency(values), never)[0]


POINTS = {
    "inside": (["0000", "0090", "0000"], 1.0),
    "outside": (["0000", "0000", "0090"], 0.0),
    "first maximum of equal ones is outside": (["9090", "0000", "0000"], 0.0),
    "first maximum of equal ones is inside": (["0909", "0000", "0000"], 1.0),
    "strong against the class is not strong for it": ([".000", "0010", "0000"], 1.0),
    "a constant map points at the corner": (["1111", "1111", "1111"], 0.0),
}


@pytest.mark.parametrize("case", POINTS)
def test_pointing(case: str):
    rows, hit = POINTS[case]

    assert METRICS["pointing-game"].value(one("pointing-game", grid(rows), mask=MASK)) == hit


def test_energy_by_hand():
    """|2| + |-1| of 2 + 1 + 5; nothing of nothing is 0."""
    values = np.array([[0.0, 2, 0, 0], [0, -1, 0, 0], [5, 0, 0, 0]])

    assert one("pointing-energy", values, mask=MASK).numbers["energy"] == pytest.approx(3 / 8)
    assert one("pointing-energy", 0 * values, mask=MASK).numbers["energy"] == 0


def test_boxes_are_cut_to_whole_pixels_united_and_clipped():
    boxes = ((0.9, 0.2, 2.7, 1.9), (2.0, 1.0, 9.0, 9.0), (-5.0, -5.0, -1.0, -1.0))

    np.testing.assert_array_equal(box_mask(boxes, (3, 4)), grid(["1100", "0011", "0011"]))
    np.testing.assert_array_equal(box_mask([(-2, -2, 1, 1)], (3, 4)), grid(["1000", "0000", "0000"]))


@pytest.mark.parametrize(
    ("boxes", "reason"),
    [
        (((0, 0, 4, 2),), "fills 67%"),
        (((0, 0, 2, 3),), "fills 50%"),
        (((0, 0, 2, 2), (2, 0, 3, 2)), "fills 50%"),
        (((9, 9, 12, 12),), "no part"),
        ((), "no part"),
        (None, "no boxes or mask"),
    ],
)
def test_images_that_do_not_count(boxes, reason: str):
    found = one("pointing-game", np.zeros((3, 4)), boxes=boxes)

    assert reason in found.excluded
    assert METRICS["pointing-game"].value(found) is None


def test_the_score_is_the_mean_over_images_that_count():
    row = METRICS["pointing-game"]
    found = [one("pointing-game", grid(POINTS[case][0]), mask=MASK) for case in ("inside", "outside", "inside")]
    large = one("pointing-game", IMAGE, boxes=((0, 0, 4, 3),))

    assert row.over([*found, large]) == pytest.approx(2 / 3)
    assert row.over([large]) is None


def test_share_from_which_objects_are_too_large_is_an_option():
    assert one("pointing-game", IMAGE, boxes=((0, 0, 2, 3),), largest=0.6).excluded == ""
    assert "fills 33%" in one("pointing-game", IMAGE, mask=MASK, largest=0.3).excluded


def test_boxes_come_before_a_mask():
    values = grid(["0000", "0090", "0000"])

    assert one("pointing-game", values, mask=MASK, boxes=((0, 0, 1, 1),)).numbers["hit"] == 0


# Map 0..10 on 3 x 4; which cells each rule keeps.
MAP = np.array([[0, 8, 10, 4], [1, 9, 3, 2], [0.5, 1, 7, 0]])
KEPT = {
    "mean": ["0111", "0100", "0010"],  # the mean is 45.5 / 12 = 3.79
    "value75": ["0110", "0100", "0000"],  # more than 7.5
    "top75": ["0111", "1111", "0110"],  # nine, the two of 1 among them
    "top25": ["0110", "0100", "0000"],  # three
    "otsu": ["0110", "0100", "0010"],  # 7 and more against 4 and less
    "mov": ["0111", "0100", "0010"],  # 0.379 / (3 x 0.357) = 0.354 of 10
}


@pytest.mark.parametrize("rule", RULES)
def test_rules_of_the_cut(rule: str):
    np.testing.assert_array_equal(RULES[rule](interpolate.normalise(MAP), 0), grid(KEPT[rule]).astype(bool))


# rule -> pixel accuracy, recall, IoU of the object, IoU of the background; the mask is MASK
SCORES = {
    "mean": (9 / 12, 3 / 4, 3 / 6, 6 / 9),  # found 3 of 4, wrong 2
    "value75": (11 / 12, 3 / 4, 3 / 4, 8 / 9),
    "top75": (7 / 12, 4 / 4, 4 / 9, 3 / 8),
    "top25": (11 / 12, 3 / 4, 3 / 4, 8 / 9),
    "otsu": (10 / 12, 3 / 4, 3 / 5, 7 / 9),
    "mov": (9 / 12, 3 / 4, 3 / 6, 6 / 9),
}


@pytest.mark.parametrize("rule", RULES)
def test_scores_by_hand(rule: str):
    accuracy, recall, iou, background = SCORES[rule]
    values = {
        name: METRICS[name].value(one(name, MAP, mask=MASK, threshold=rule))
        for name in ("pixel-accuracy", "pixel-recall", "iou", "miou")
    }

    assert values == pytest.approx(
        {"pixel-accuracy": accuracy, "pixel-recall": recall, "iou": iou, "miou": (iou + background) / 2}
    )


def test_unlabelled_pixels_are_left_out():
    """Two unlabelled cells, one of them kept by the rule: 10 labelled, found 3 of 4, wrong 1."""
    mask = grid([".11.", "0110", "0000"])
    found = one("miou", MAP, mask=mask, threshold="mean")

    assert METRICS["pixel-accuracy"].value(found) == pytest.approx(8 / 10)
    assert METRICS["miou"].value(found) == pytest.approx((3 / 5 + 5 / 7) / 2)


def test_accumulated_and_averaged_differ_as_they_should():
    """A large and a small object: found 3 of 4 with 2 wrong in 12 pixels, found 1 of 1 with 4 wrong in 12."""
    small = grid(["0000", "0100", "0000"])
    found = [one("miou", MAP, mask=mask, threshold="mean") for mask in (MASK, small)]

    assert METRICS["iou"].over(found) == pytest.approx((3 / 6 + 1 / 5) / 2)
    assert METRICS["miou"].over(found) == pytest.approx((4 / 11 + (6 + 7) / (9 + 11)) / 2)
    assert METRICS["pixel-accuracy"].over(found) == pytest.approx((9 + 8) / 24)
    assert METRICS["pixel-recall"].over(found) == pytest.approx(4 / 5)


def test_a_class_without_pixels_does_not_count():
    assert "no pixel" in one("iou", MAP, mask=0 * MASK).excluded
    assert one("iou", MAP).excluded == "no mask"


@pytest.mark.parametrize("rule", ["mean", "value75", "otsu", "mov"])
def test_constant_map_finds_nothing(rule: str):
    assert one("iou", np.full((3, 4), 0.4), mask=MASK, threshold=rule).numbers["found"] == 0


def test_top_shares_are_exact_on_a_constant_map():
    found = one("iou", np.full((3, 4), 0.4), mask=np.ones((3, 4), int), threshold="top75")

    assert found.numbers["found"] == 9


def test_perfect_map_is_perfect():
    found = one("miou", MASK, mask=MASK)

    assert METRICS["miou"].value(found) == 1
    assert METRICS["pixel-accuracy"].value(found) == 1
    whole = one("miou", np.linspace(0.9, 1, 12).reshape(3, 4), mask=np.ones((3, 4), int), threshold="top75")
    assert METRICS["miou"].value(whole) == pytest.approx((9 / 12 + 0) / 2)


def slow_otsu(values) -> float:
    """Every level k / 256: the one at which the spread between both sides, weighted by their pixels, is largest."""
    best, level = -1.0, 0.0
    binned = (np.minimum(np.floor(values * 256), 255) + 0.5) / 256
    for k in range(1, 256):
        low, high = binned[binned < k / 256], binned[binned >= k / 256]
        if len(low) and len(high):
            spread = len(low) * len(high) * (low.mean() - high.mean()) ** 2
            if spread > best * (1 + 1e-12):
                best, level = spread, k / 256
    return level


@pytest.mark.parametrize("seed", range(5))
def test_twin_of_otsu(seed: int):
    rng = np.random.default_rng(seed)
    values = np.concatenate([rng.beta(2, 8, 300), rng.beta(8, 3, 150)])

    assert otsu(values) == pytest.approx(slow_otsu(values), abs=1e-12)
