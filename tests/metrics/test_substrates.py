"""What removed pixels become: by hand, and the blurs against scipy."""

from __future__ import annotations

import numpy as np
import pytest

from gradskip_onnx.metrics import Sample
from gradskip_onnx.metrics.substrates import SUBSTRATES, Blur, uniform

EXACT = 1e-9  # float64 sums of at most 121 terms near 1


def test_folded_blur_is_a_filtered_delta():
    """The kernel of RISE: scipy's Gaussian of a delta inside an 11 x 11 array."""
    ndimage = pytest.importorskip("scipy.ndimage")
    delta = np.zeros((11, 11))
    delta[5, 5] = 1
    kernel = Blur(folded=True).kernel()

    np.testing.assert_allclose(np.outer(kernel, kernel), ndimage.gaussian_filter(delta, 5), atol=EXACT)
    image = np.random.default_rng(0).standard_normal((2, 16, 13))
    expected = [ndimage.convolve(c, np.outer(kernel, kernel), mode="constant") for c in image]
    np.testing.assert_allclose(Blur(folded=True)(image), expected, atol=EXACT)


def test_plain_blur_against_scipy():
    """A Gaussian cut at 11 weights, the image mirrored without repeating its edge."""
    ndimage = pytest.importorskip("scipy.ndimage")
    image = np.random.default_rng(0).standard_normal((2, 16, 13))
    expected = [ndimage.gaussian_filter(c, 5.0, mode="mirror", radius=5) for c in image]

    np.testing.assert_allclose(Blur()(image), expected, atol=EXACT)


def test_substrates_by_hand():
    given = Sample("a", np.array([[[1.0, 2.0]], [[3.0, 6.0]]], np.float32), 0, mean=(0.5, 0.25), std=(0.25, 0.5))

    np.testing.assert_array_equal(SUBSTRATES["mean"](given), np.full((2, 1, 2), 3.0))
    np.testing.assert_array_equal(SUBSTRATES["black"](given), [[[-2.0, -2.0]], [[-0.5, -0.5]]])
    np.testing.assert_array_equal(SUBSTRATES["zero"](given), np.zeros((2, 1, 2)))


@pytest.mark.parametrize("noise", [SUBSTRATES["random"], uniform])
def test_noise_follows_the_seed_alone(noise):
    image = np.zeros((3, 40, 40), np.float32)
    one, same, other = (noise(Sample("x", image, target, seed=seed)) for target, seed in ((0, 7), (1, 7), (0, 8)))

    np.testing.assert_array_equal(one, same)
    assert (one != other).mean() > 0.99
    assert one.dtype == np.float32


def test_spread_of_the_noise():
    """4800 draws: the standard error of the mean is 0.014 and 0.004."""
    given = Sample("x", np.zeros((3, 40, 40), np.float32), 0)

    assert abs(SUBSTRATES["random"](given).mean()) < 0.06
    assert SUBSTRATES["random"](given).std() == pytest.approx(1, abs=0.05)
    assert uniform(given).mean() == pytest.approx(0.5, abs=0.02)
    assert uniform(given).min() >= 0
    assert uniform(given).max() < 1
