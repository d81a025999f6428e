"""The line encloses the smallest area that holds its share, and is read on any ground."""

from __future__ import annotations

import numpy as np
import pytest

from gradskip_onnx.drawing.outline import line_around, smallest_area
from gradskip_onnx.drawing.style import PictureStyle
from gradskip_onnx.drawing.view import view_of
from gradskip_onnx.types import Array

from .scenes import grey, heat, hills


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(5))
def test_the_area_holds_its_share_and_none_smaller_does(seed, share):
    values = np.random.default_rng(seed).normal(size=(30, 40))
    area = smallest_area(values, share)
    positive = np.maximum(values, 0)
    strongest = np.sort(positive, axis=None)[::-1]

    assert positive[area].sum() >= share * positive.sum()
    # any area with one pixel less holds at most the sum of the strongest so many pixels
    assert strongest[: area.sum() - 1].sum() < share * positive.sum()
    assert positive[area].min() > positive[~area].max()


def test_equal_pixels_stay_together():
    values = np.array([[2.0, 1.0, 1.0, 1.0, 1.0, -3.0]])

    np.testing.assert_array_equal(smallest_area(values, 0.3), [[True, False, False, False, False, False]])
    np.testing.assert_array_equal(smallest_area(values, 0.5), [[True, True, True, True, True, False]])


@pytest.mark.parametrize(("values", "share"), [(np.zeros((4, 4)), 0.5), (-np.ones((4, 4)), 0.5), (np.ones((4, 4)), 0)])
def test_without_positive_relevance_there_is_no_area(values, share):
    assert not smallest_area(values, share).any()


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_the_area_of_a_view_holds_its_share_of_what_is_drawn(share):
    view = view_of(heat(hills(200, 150)), (400, 300), PictureStyle(outline=share))
    positive = np.maximum(view.values, 0)

    assert positive[view.area].sum() == pytest.approx(share * positive.sum(), rel=1e-3)
    assert view.area_share == pytest.approx(view.area.mean())


def test_next_to_nothing_gets_no_line():
    """Beside strong negative relevance, a line around invisible positive relevance would mislead."""
    values = -hills(200, 150)
    values[:5] = 0.01 * values.max() + 0.001

    assert not view_of(heat(values), (200, 150), PictureStyle()).area.any()
    assert view_of(heat(values), (200, 150), PictureStyle(signed=False)).area.any()
    assert view_of(heat(values + 0.3), (200, 150), PictureStyle()).area.any()


def drawn_over(ground: int, area: Array) -> Array:
    """Pixels (H, W, 3) of an even ground with the line around an area."""
    line = line_around(area, 2.0)
    assert line is not None
    return np.asarray(line.over(grey(area.shape[1], area.shape[0], ground)), float)


def test_an_empty_area_has_no_line():
    assert line_around(np.zeros((4, 4), bool), 2.0) is None


@pytest.mark.parametrize("ground", [0, 60, 128, 200, 255])
def test_the_line_is_read_on_every_ground(ground):
    area = np.zeros((80, 80), bool)
    area[20:60, 20:60] = True
    drawn = drawn_over(ground, area)

    assert drawn.max() - drawn.min() > 150  # a light line in a dark casing: one of them differs from the ground
    np.testing.assert_array_equal(drawn[40, 40], [ground] * 3)
    np.testing.assert_array_equal(drawn[5, 5], [ground] * 3)


def test_the_line_runs_along_the_edge_of_the_area():
    area = np.zeros((60, 60), bool)
    area[:, 30:] = True
    drawn = drawn_over(0, area)[..., 0]

    assert (drawn[:, 29:31] > 200).all()
    assert (drawn[:, :25] == 0).all()
    assert (drawn[:, 35:] < 20).all()
    assert np.ptp(drawn, axis=0).max() == pytest.approx(0)  # no line along the edge of the picture
