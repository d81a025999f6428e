"""Insertion and Deletion: curves worked by hand, a pixel-by-pixel twin of RISE, ties, ends and substrates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradskip_onnx.errors import InputError, ModelError
from gradskip_onnx.metrics import BATCH, METRICS, Saliency, Sample, Score, choose, measure
from gradskip_onnx.metrics.protocols import PERCENT, PROTOCOLS, trapezoid
from gradskip_onnx.metrics.ranking import patch_ranks, ranks
from gradskip_onnx.metrics.substrates import Blur
from gradskip_onnx.types import Array

from .metric_samples import Counting, saliency, sample, weighted

NAMES = ("insertion", "deletion", "insertion-deletion")
EXACT = 1e-9  # sums of a few float32 numbers that are exact in binary, up to the blur and the mean
FLOAT32 = 1e-6  # images are float32: one rounding of values near 1

# Four pixels, zero substrate, probability = 0.5 a + 0.25 b + 0.125 c: the map ranks a, b, c, d.
WEIGHTS = [[0.5, 0.25], [0.125, 0.0]]
ONES = [[1.0, 1.0], [1.0, 1.0]]
MAP = [[4.0, 3.0], [2.0, 1.0]]
CURVES = {"insertion": [0, 0.5, 0.75, 0.875, 0.875], "deletion": [0.875, 0.375, 0.125, 0, 0]}
AREAS = {
    # (sum - half of both ends) / 4: (3 - 0.4375) / 4 and (1.375 - 0.4375) / 4
    ("canonical", "insertion"): 2.5625 / 4,
    ("canonical", "deletion"): 0.9375 / 4,
    ("rise", "insertion"): 2.5625 / 4,
    ("rise", "deletion"): 0.9375 / 4,
    # the mean of the four scores after a change
    ("tis", "insertion"): (0.5 + 0.75 + 0.875 + 0.875) / 4,
    ("tis", "deletion"): (0.375 + 0.125) / 4,
}


@pytest.mark.parametrize(("protocol", "kind"), AREAS)
def test_areas_by_hand(protocol: str, kind: str):
    options = {"protocol": protocol, "steps": 4, "substrate": "zero"}
    choices = [choose(name, **options) for name in NAMES]
    found = measure(choices, sample(ONES), saliency(MAP), weighted(WEIGHTS))
    values = {choice.row.name: choice.row.value(one) for choice, one in zip(choices, found, strict=True)}

    assert values[kind] == pytest.approx(AREAS[protocol, kind], abs=EXACT)
    difference = AREAS[protocol, "insertion"] - AREAS[protocol, "deletion"]
    assert values["insertion-deletion"] == pytest.approx(difference, abs=EXACT)


@pytest.mark.parametrize("kind", CURVES)
def test_curves_by_hand(kind: str):
    (found,) = measure([choose(kind, steps=4, substrate="zero")], sample(ONES), saliency(MAP), weighted(WEIGHTS))

    np.testing.assert_allclose(found.curves[kind], [[0, 0.25, 0.5, 0.75, 1], CURVES[kind]], atol=EXACT)
    assert found.numbers["probability"] == pytest.approx(0.875)


def test_whole_patches_by_hand():
    """3 x 3 pixels, patches of 2 x 2, 2 x 1, 1 x 2 and 1 x 1 with the means 2, 5, 3 and 9.

    The order is 9 (one pixel, p = 1/2), 5 (two, 1/4), 3 (two, 1/8), 2 (four, 1/8). By pixels the strongest, of 8, would
    come second. Cuts at 3 and 6 of 9 pixels: the second one reaches into the last patch, which changes as a whole.
    """
    values = [[8.0, 0.0, 5.0], [0.0, 0.0, 5.0], [3.0, 3.0, 9.0]]
    weights = [[0.03125, 0.03125, 0.125], [0.03125, 0.03125, 0.125], [0.0625, 0.0625, 0.5]]
    given, score = sample(np.ones((3, 3)), patch=2), weighted(weights)
    (found,) = measure(
        [choose("insertion-deletion", unit="patch", steps=3, substrate="zero")], given, saliency(values), score
    )

    x = [0, 1 / 3, 2 / 3, 1]
    np.testing.assert_allclose(found.curves["insertion"], [x, [0, 0.75, 1, 1]], atol=EXACT)
    np.testing.assert_allclose(found.curves["deletion"], [x, [1, 0.25, 0, 0]], atol=EXACT)
    assert found.numbers["difference"] == pytest.approx((2.25 - 0.75) / 3, abs=EXACT)


def test_ranks_of_patches_by_hand():
    values = np.array([[8.0, 0.0, 5.0], [0.0, 0.0, 5.0], [3.0, 3.0, 9.0]])

    np.testing.assert_array_equal(patch_ranks(values, 2, 0), [[5, 5, 1], [5, 5, 1], [3, 3, 0]])
    np.testing.assert_array_equal(patch_ranks(values, 1, 3), ranks(values, 3))


def test_ties_of_patches_follow_the_rule_of_pixels():
    flat = np.ones((4, 4))

    np.testing.assert_array_equal(patch_ranks(flat, 2, 5)[::2, ::2], 4 * ranks(np.ones((2, 2)), 5))
    np.testing.assert_array_equal(patch_ranks(flat, 2, 5, last_first=True)[::2, ::2], [[12, 8], [4, 0]])


def test_tis_has_no_untouched_start():
    options = {"protocol": "tis", "steps": 4, "substrate": "zero"}
    (found,) = measure([choose("deletion", **options)], sample(ONES), saliency(MAP), weighted(WEIGHTS))

    np.testing.assert_allclose(found.curves["deletion"], [[0.25, 0.5, 0.75, 1], CURVES["deletion"][1:]], atol=EXACT)


def test_the_group_by_hand():
    """10 x 10 pixels from raw scores 2 x 2, p = share of the top left quarter that is still there.

    The strongest 25 % are that quarter. Insertion: q/25 up to 20 %, then 1. Deletion: 0 at 0 % as published, 1 - q/25.
    """
    weights = np.zeros((10, 10))
    weights[:5, :5] = 1 / 25
    given = Saliency(map=np.zeros((10, 10)), scores=np.array([[3.0, 2.0], [1.0, 0.0]]))
    (found,) = measure(
        [choose("insertion-deletion", protocol="group", substrate="zero")],
        sample(np.ones((10, 10))),
        given,
        weighted(weights),
    )
    there = np.minimum(np.array(PERCENT) / 25, 1)

    np.testing.assert_allclose(found.curves["insertion"], [np.array(PERCENT) / 100, there], atol=FLOAT32)
    deleted = [[0, *np.array(PERCENT) / 100], [0, *(1 - there)]]
    np.testing.assert_allclose(found.curves["deletion"], deleted, atol=FLOAT32)
    # trapezoids over 1, 5, 10, 20, 30 and 100 %: heights 0.04, 0.2, 0.4, 0.8, 1, 1
    insertion = 0.04 * 0.12 + 0.05 * 0.3 + 0.1 * 0.6 + 0.1 * 0.9 + 0.7
    # 0, 0.96, 0.8, 0.6, 0.2, 0 at 0, 1, 5, 10, 20, 30 %
    deletion = 0.01 * 0.48 + 0.04 * 0.88 + 0.05 * 0.7 + 0.1 * 0.4 + 0.1 * 0.1
    assert found.numbers["insertion"] == pytest.approx(insertion, abs=FLOAT32)
    assert found.numbers["deletion"] == pytest.approx(deletion, abs=FLOAT32)


def slow_rise(image: Array, finish: Array, values: Array, score: Score, step: int) -> float:
    """RISE as its text has it: change `step` pixels, ask, repeat; equal values in order of decreasing index."""
    pixels = sorted(range(values.size), key=lambda place: (values.flat[place], place), reverse=True)
    current, scores = image.copy(), [float(score(image[None])[0])]
    while pixels:
        now, pixels = pixels[:step], pixels[step:]
        for place in now:
            row, column = divmod(place, values.shape[1])
            current[:, row, column] = finish[:, row, column]
        scores.append(float(score(current[None])[0]))
    return (sum(scores) - scores[0] / 2 - scores[-1] / 2) / (len(scores) - 1)


@pytest.mark.parametrize("seed", range(4))
def test_twin_of_rise(seed: int):
    """With ties, three channels, and steps that do not divide the pixels: 5 steps of 7 and one of 1."""
    rng = np.random.default_rng(seed)
    image = rng.standard_normal((3, 6, 6)).astype(np.float32)
    values = rng.integers(0, 5, (6, 6)).astype(float)
    kernel = rng.standard_normal((3, 6, 6)) / 6

    def score(images):
        return 1 / (1 + np.exp(-(images * kernel).sum(axis=(1, 2, 3))))

    (found,) = measure(
        [choose("insertion-deletion", protocol="rise", steps=5)], Sample("a", image, 0), saliency(values), score
    )
    step = -(-36 // 5)
    blurred = Blur(folded=True)(image)
    inserted, deleted = (
        slow_rise(blurred, image, values, score, step),
        slow_rise(image, np.zeros_like(image), values, score, step),
    )

    assert found.numbers["insertion"] == pytest.approx(inserted, abs=FLOAT32)
    assert found.numbers["deletion"] == pytest.approx(deleted, abs=FLOAT32)


def test_ties_follow_the_seed_and_values_come_first():
    values = np.array([[1.0, 2.0, 1.0], [2.0, 1.0, 3.0]])
    one = ranks(values, 5)

    assert one[1, 2] == 0
    assert {one[0, 1], one[1, 0]} == {1, 2}
    np.testing.assert_array_equal(one, ranks(values * 10, 5))
    assert any((ranks(values, seed) != one).any() for seed in range(20))
    np.testing.assert_array_equal(ranks(values, 5, last_first=True), [[5, 2, 4], [1, 3, 0]])


def test_two_methods_with_the_same_order_score_the_same():
    """Only the order of a map counts, and equal values are ordered alike for all methods."""
    rng = np.random.default_rng(0)
    given = sample(rng.random((8, 8)), seed=3)
    coarse = np.kron(rng.permutation(16).reshape(4, 4), np.ones((2, 2)))
    score = weighted(rng.random((8, 8)) / 64)
    choice = [choose("insertion-deletion", steps=13, substrate="random")]
    (one,), (two,) = (measure(choice, given, saliency(m), score) for m in (coarse, np.exp(coarse)))

    assert one.numbers == two.numbers


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("substrate", ["mean", "black", "zero", "random", "blur", "usual"])
def test_the_truth_beats_chance_and_chance_beats_the_opposite(protocol: str, substrate: str):
    """The probability grows with the pixels of a bright corner alone."""
    rng = np.random.default_rng(1)
    image = rng.standard_normal((16, 16)).astype(np.float32) * 0.1
    image[:6, :6] += 4
    given = sample(image, mean=(0.5,), std=(0.5,), seed=2)

    def score(images):
        return np.exp(-((images[:, 0, :6, :6] - image[:6, :6]) ** 2).mean(axis=(1, 2)) / 8)

    truth = np.zeros((16, 16))
    truth[:6, :6] = 1
    steps = 0 if protocol == "group" else 16
    choice = [choose("insertion-deletion", protocol=protocol, substrate=substrate, steps=steps)]
    best, chance, worst = (
        measure(choice, given, saliency(m), score)[0].numbers["difference"]
        for m in (truth, rng.random((16, 16)), -truth)
    )

    assert best > chance + 0.1
    assert chance > worst + 0.1


def test_constant_map_is_a_random_order():
    """28 steps over pixels in no particular order: both areas of a linear score are a half of p(x)."""
    given = sample(np.ones((28, 28)))
    (found,) = measure(
        [choose("insertion", substrate="zero")],
        given,
        saliency(np.full((28, 28), 0.3)),
        weighted(np.full((28, 28), 1 / 784)),
    )

    assert found.numbers["insertion"] == pytest.approx(0.5, abs=FLOAT32)
    assert found.numbers["deletion"] == pytest.approx(0.5, abs=FLOAT32)


@pytest.mark.parametrize(("options", "asked"), [({}, 56), ({"protocol": "rise"}, 57), ({"protocol": "group"}, 24)])
def test_ends_are_asked_for_once_and_memory_is_bounded(options, asked: int):
    """All three rows together cost what one does: 2 T images of T steps, one more where substrates differ."""
    score = Counting(weighted(np.full((28, 28), 1 / 784)))
    choices = [choose(name, **options) for name in NAMES]
    measure(choices, sample(np.ones((28, 28))), saliency(np.random.default_rng(0).random((28, 28))), score)

    assert sum(score.batches) == asked
    assert choices[0].row.passes(choices[0].options) == asked
    assert max(score.batches) <= BATCH


def test_uneven_steps_weigh_by_their_pixels():
    """3 steps of 4 pixels: 1, 1 and 2 of them."""
    (found,) = measure([choose("insertion", steps=3, substrate="zero")], sample(ONES), saliency(MAP), weighted(WEIGHTS))

    np.testing.assert_allclose(found.curves["insertion"], [[0, 0.25, 0.5, 1], [0, 0.5, 0.75, 0.875]], atol=EXACT)
    expected = 0.25 * 0.25 + 0.25 * 0.625 + 0.5 * 0.8125
    assert found.numbers["insertion"] == pytest.approx(expected, abs=EXACT)


def test_trapezoid():
    assert trapezoid(np.array([0, 0.5, 1]), np.array([0, 1, 1])) == pytest.approx(0.75)


BROKEN = {
    "nan": (saliency([[np.nan, 1], [2, 3]]), weighted(WEIGHTS), InputError, "1 of 4 values of the map are NaN"),
    "infinite": (saliency([[np.inf, 1], [2, 3]]), weighted(WEIGHTS), InputError, "NaN or infinite"),
    "raw nan": (saliency(MAP, [[np.nan]]), weighted(WEIGHTS), InputError, "values of the scores"),
    "size": (saliency([[1.0]]), weighted(WEIGHTS), InputError, "resize"),
    "flat scores": (saliency(MAP, [1.0, 2.0]), weighted(WEIGHTS), InputError, "rows and columns"),
    "model": (saliency(MAP), lambda images: np.full(len(images), np.nan), ModelError, "not a finite number"),
    "shape": (saliency(MAP), lambda images: np.zeros((len(images), 2)), InputError, "as many numbers"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_maps_and_models_are_errors(case: str):
    given, score, error, message = BROKEN[case]
    with pytest.raises(error, match=message):
        measure([choose("insertion", steps=2)], sample(ONES), given, score)


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "unknown metric": ("insertions", {}),
    "no option": ("insertion", {"step": 3}),
    "allowed: usual, mean": ("insertion", {"substrate": "grey"}),
    "got -1": ("insertion", {"steps": -1}),
    "every step must change a pixel": ("insertion", {"steps": 5}),
    "fixed points": ("insertion", {"steps": 5, "protocol": "group"}),
    "odd": ("insertion", {"blur_size": 4, "steps": 2}),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused_choices(message: str):
    name, options = REFUSED[message]
    with pytest.raises(InputError, match=message):
        measure([choose(name, **options)], sample(ONES), saliency(MAP), weighted(WEIGHTS))


def test_labels_name_what_differs_from_the_defaults():
    assert choose("insertion").label == "insertion"
    assert choose("deletion", substrate="black", steps=14).label == "deletion[substrate=black,steps=14]"


def test_rows_are_complete():
    for name, row in METRICS.items():
        assert row.name == name
        assert row.better in ("higher", "lower")
        assert row.span[0] < row.span[1]
        assert row.passes(row.options()) >= 0
        assert all("help" in field.metadata for field in row.options.__dataclass_fields__.values())
