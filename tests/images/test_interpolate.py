"""Resampling against torch's interpolation and by hand; normalisation by hand."""

import numpy as np
import pytest

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.interpolate import normalise, resize

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
@pytest.mark.parametrize(("mode", "torch_mode"), [("bilinear", "bilinear"), ("nearest", "nearest-exact")])
def test_equals_torch(old, new, mode, torch_mode):
    torch = pytest.importorskip("torch")
    scores = np.random.default_rng(0).random(old)
    keywords = {"align_corners": False} if mode == "bilinear" else {}
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


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
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
