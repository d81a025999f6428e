"""Resampling against torch's interpolation and by hand; normalisation by hand."""

import numpy as np
import pytest

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.interpolate import MODES, matrices, nearest, normalise, place, resize

FLOAT32 = 1e-6  # both sides round sums of four float32 products of values below 1
SIZES = [
    ((14, 14), (224, 224)),
    ((14, 14), (500, 333)),
    ((7, 12), (100, 31)),
    ((1, 1), (5, 7)),
    ((1, 9), (4, 4)),
    ((16, 16), (16, 16)),
    ((64, 48), (20, 30)),  # smaller: no smoothing either
]


@pytest.mark.torch
@pytest.mark.parametrize(("old", "new"), SIZES)
@pytest.mark.parametrize(
    ("mode", "torch_mode", "keywords"),
    [
        ("bilinear", "bilinear", {"align_corners": False}),
        ("corners", "bilinear", {"align_corners": True}),
        ("nearest", "nearest-exact", {}),
    ],
)
def test_equals_torch(old, new, mode, torch_mode, keywords):
    torch = pytest.importorskip("torch")
    scores = np.random.default_rng(0).random(old)
    expected = torch.nn.functional.interpolate(torch.from_numpy(scores)[None, None], new, mode=torch_mode, **keywords)
    result = resize(scores, new, mode)
    assert result.dtype == np.float32
    assert result.shape == new
    np.testing.assert_allclose(result, expected[0, 0].numpy(), atol=FLOAT32, rtol=0)


def test_bilinear_by_hand():
    result = resize(np.array([[0.0, 1.0]]), (1, 4))
    np.testing.assert_allclose(result, [[0.0, 0.25, 0.75, 1.0]], atol=FLOAT32)


def test_nearest_by_hand():
    result = resize(np.array([[1.0, 2.0, 3.0]]), (2, 5), "nearest")
    np.testing.assert_array_equal(result, [[1, 1, 2, 3, 3]] * 2)


def test_mirrored_by_hand():
    """Samples at 1/2 and 3/2 of an axis of 2: the new centres 1/4 and 7/4 are read at 3/4 and 5/4."""
    result = resize(np.array([[0.0, 1.0]]), (1, 4), "mirrored")
    np.testing.assert_allclose(result, [[0.25, 0.25, 0.75, 0.75]], atol=FLOAT32)


@pytest.mark.parametrize(("old", "new"), SIZES)
@pytest.mark.parametrize("mode", MODES)
def test_matrices_and_taps_say_the_same(old, new, mode):
    maps = np.random.default_rng(1).standard_normal((3, *old))
    down, across = matrices(new, old, mode)
    for large, scores in zip(down @ maps @ across.T, maps, strict=True):
        np.testing.assert_allclose(large, resize(scores, new, mode), atol=4 * FLOAT32)
    np.testing.assert_allclose(down.sum(axis=1), 1)


def test_nearest_within_a_box():
    """Six samples over -1 ... 5: the places outside are those of no sample, left to the caller."""
    np.testing.assert_array_equal(nearest(6, -1, 5), [-1, 0, 1, 2, 3, 4])
    np.testing.assert_array_equal(nearest(2, 1.0, 4.0), [1, 3])


@pytest.mark.parametrize(("new", "old"), [(224, 14), (500, 7), (31, 64), (3, 3), (1, 9), (997, 991)])
def test_nearest_is_exact_in_whole_numbers(new, old):
    np.testing.assert_array_equal(nearest(new, 0, old), (2 * np.arange(new) + 1) * old // (2 * new))


def test_nothing_is_placed_outside_the_box():
    placed = place(np.full((2, 2), -3.0), (4, 6), (1, 1, 5, 3))
    expected = np.zeros((4, 6), np.float32)
    expected[1:3, 1:5] = -3
    np.testing.assert_array_equal(placed, expected)
    assert not np.signbit(placed[0]).any()


@pytest.mark.parametrize("mode", MODES)
def test_constant_stays_constant(mode):
    np.testing.assert_allclose(resize(np.full((5, 3), 0.7), (17, 29), mode), 0.7, atol=FLOAT32)


@pytest.mark.parametrize(
    ("scores", "size", "mode", "message"),
    [
        (np.ones((2, 2)), (4, 4), "cubic", "allowed: bilinear, nearest"),
        (np.ones((2, 2)), (0, 4), "bilinear", "at least 1"),
        (np.ones(4), (4, 4), "bilinear", "rows and columns"),
        (np.ones((0, 4)), (4, 4), "nearest", "rows and columns"),
    ],
)
def test_bad_input_is_named(scores, size, mode, message):
    with pytest.raises(InputError, match=message):
        resize(scores, size, mode)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([[1.0, 3.0], [2.0, 5.0]], [[0, 0.5], [0.25, 1]]),
        ([[-2.0, 2.0]], [[0, 1]]),
        ([[0.3, 0.3]], [[0, 0]]),
        ([[0.0]], [[0]]),
        ([[1e-300, 3e-300, 2e-300]], [[0, 1, 0.5]]),
        ([[-1.7e308, 1.7e308, 0.0]], [[0, 1, 0.5]]),
    ],
)
def test_normalise(values, expected):
    result = normalise(np.array(values))
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, atol=FLOAT32)


def test_normalise_refuses_nan():
    with pytest.raises(InputError, match="NaN"):
        normalise(np.array([[0.0, np.nan]]))
