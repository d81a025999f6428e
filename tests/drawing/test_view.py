"""What the eye gets of a map: smoothing that loses nothing, the range of the colours, and when signs are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from gradskip_onnx.drawing.heat_map import FINEST, HeatMap
from gradskip_onnx.drawing.smoothing import smooth
from gradskip_onnx.drawing.style import PictureStyle
from gradskip_onnx.drawing.view import SPIKES, negative_matters, view_of
from gradskip_onnx.errors import InputError

from .scenes import heat, hills

RAW = PictureStyle(smoothing=0)


def test_smoothing_is_a_gaussian():
    values = np.zeros((101, 121))
    values[50, 60] = 1.0
    rows, columns = np.mgrid[-50:51, -60:61]
    expected = np.exp(-(rows**2) / (2 * 4.0**2) - columns**2 / (2 * 6.0**2)) / (2 * np.pi * 4.0 * 6.0)

    np.testing.assert_allclose(smooth(values, (4.0, 6.0)), expected, atol=1e-9)


@pytest.mark.parametrize("sigma", [(0.0, 0.0), (0.3, 0.0), (3.0, 9.0), (200.0, 200.0)])
def test_smoothing_keeps_the_sum(sigma):
    values = np.random.default_rng(0).normal(size=(40, 30))

    assert smooth(values, sigma).sum() == pytest.approx(values.sum())


def test_no_smoothing_changes_nothing():
    values = hills(64, 48)

    np.testing.assert_allclose(view_of(heat(values), (64, 48), RAW).values, values)


def test_smoothing_does_not_leave_what_the_model_saw():
    values = np.zeros((60, 80))
    values[:, 20:60] = hills(40, 60)
    view = view_of(heat(values, (20, 0, 60, 60)), (80, 60), PictureStyle(smoothing=1.0))

    assert (view.values[:, :20] == 0).all()
    assert (view.values[:, 60:] == 0).all()
    assert view.values.sum() == pytest.approx(values.sum(), rel=1e-5)
    assert not view.whole


def test_smoothing_is_measured_in_patches_unless_they_are_tiny():
    values = hills(560, 280)
    usual, tiny = HeatMap(values, (20.0, 40.0)), HeatMap(values, (2.0, 2.0))

    assert (usual.blur_unit, usual.fine) == ((20.0, 40.0), False)
    assert (tiny.blur_unit, tiny.fine) == ((280 / FINEST, 560 / FINEST), True)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, False), (0.05, False), (0.099, False), (0.101, True), (0.5, True)]
)
def test_signs_are_drawn_above_a_tenth(share, expected):
    values = np.array([[1.0 - share, -share], [0.0, 0.0]])

    assert negative_matters(heat(values)) is expected
    assert view_of(heat(values), (2, 2), RAW).signed is expected
    assert view_of(heat(values), (2, 2), PictureStyle(signed=True)).signed
    assert not view_of(heat(values), (2, 2), PictureStyle(signed=False)).signed


def test_only_what_the_model_saw_decides_about_signs():
    values = np.array([[1.0, 1.0, -9.0]])

    assert negative_matters(heat(values))
    assert not negative_matters(heat(values, (0, 0, 2, 1)))


def test_a_positive_map_is_drawn_from_its_least_value_whatever_stands_beside_it():
    values = np.array([[1.0, 2.0, 3.0]])
    both, one = (view_of(heat(values), (3, 1), PictureStyle(smoothing=0, signed=signed)) for signed in (True, False))

    np.testing.assert_array_equal(both.strength, one.strength)


RANGES = [
    (np.array([[1.0, 3.0]]), None, (1.0, 3.0)),
    (np.array([[-0.1, 3.0]]), None, (0.0, 3.0)),
    (np.array([[-1.0, 3.0]]), None, (0.0, 3.0)),
    (np.array([[-5.0, 3.0]]), None, (0.0, 5.0)),
    (np.array([[0.0, 2.0, 4.0, 0.0]]), (1.0, 0.0, 3.0, 1.0), (2.0, 4.0)),
    (np.zeros((3, 3)), None, (0.0, 0.0)),
    (-np.ones((3, 3)), None, (0.0, 1.0)),
]


@pytest.mark.parametrize(("values", "box", "expected"), RANGES, ids=str)
def test_range_of_the_colours(values, box, expected):
    view = view_of(heat(values, box), values.shape[::-1], RAW)

    assert (view.low, view.top) == expected


@pytest.mark.parametrize("bad", [np.full((4, 4), np.nan), np.full((4, 4), np.inf), np.zeros(4), np.zeros((1, 4, 4))])
def test_maps_that_cannot_be_drawn(bad):
    with pytest.raises(InputError, match="finite"):
        HeatMap(bad, (1.0, 1.0))


def test_strength_runs_from_none_to_the_strongest():
    values = np.array([[0.0, 1.0, 2.0, 4.0]])

    np.testing.assert_allclose(view_of(heat(values), (4, 1), RAW).strength, [[0, 0.25, 0.5, 1]])
    np.testing.assert_allclose(view_of(heat(values - 2), (4, 1), RAW).strength, [[-1, -0.5, 0, 1]])
    np.testing.assert_allclose(
        view_of(heat(values - 2), (4, 1), PictureStyle(smoothing=0, signed=False)).strength, [[0, 0, 0, 1]]
    )


def test_colours_do_not_reach_for_a_few_spikes():
    """One pixel in a thousand must not make all others look pale."""
    values = np.random.default_rng(0).uniform(0, 1, (100, 100))
    plain = view_of(heat(values), (100, 100), RAW)
    values.flat[::1000] = 20
    spiky = view_of(heat(values), (100, 100), RAW)

    assert not plain.clipped
    assert spiky.clipped
    assert 0.9 < spiky.top < 1.1
    assert (spiky.strength == 1).mean() <= SPIKES + 0.001


def test_a_single_pixel_keeps_its_colour():
    values = np.zeros((40, 40))
    values[3, 4] = 1
    view = view_of(heat(values), (40, 40), RAW)

    assert (view.low, view.top, view.clipped) == (0.0, 1.0, False)
