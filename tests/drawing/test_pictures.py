"""Overlay, figure and grid: what is brightest, what is left alone, and that nothing is cut at any size."""

from __future__ import annotations

import time

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx.drawing.blocks import INK, PAPER
from gradskip_onnx.drawing.colours import AGAINST, FOR, PALETTES
from gradskip_onnx.drawing.panels import MAX_SIDE, MIN_SIDE, panel_size
from gradskip_onnx.drawing.pictures import MARGIN, draw_figure, draw_grid, draw_overlay
from gradskip_onnx.drawing.style import PictureStyle
from gradskip_onnx.drawing.view import NONE_BELOW, view_of
from gradskip_onnx.errors import InputError
from gradskip_onnx.types import Array

from .scenes import grey, heat, hills

PLAIN = PictureStyle(smoothing=0, outline=0)
LUMA = np.array([0.299, 0.587, 0.114])


def light(image: Image.Image) -> Array:
    return np.asarray(np.asarray(image, np.float64) @ LUMA)


@pytest.mark.parametrize("palette", PALETTES)
@pytest.mark.parametrize("ground", [0, 90, 180, 255])
def test_the_brightest_pixel_is_the_strongest(ground, palette):
    values = hills(400, 350)
    drawn = light(draw_overlay(grey(400, 350, ground), heat(values), PictureStyle(outline=0, palette=palette)))
    view = view_of(heat(values), (400, 350), PictureStyle())

    assert view.strength.flat[drawn.argmax()] > 0.98
    assert drawn.max() > drawn[view.strength < 0.5].max() + 25


def test_nothing_is_drawn_below_a_few_percent_of_the_top():
    values = np.zeros((350, 400))
    values[:, :100] = 0.9 * NONE_BELOW
    values[:, 200:300] = 1.5 * NONE_BELOW
    values[100:150, 320:380] = 1.0
    drawn = np.asarray(draw_overlay(grey(400, 350), heat(values), PLAIN))
    nothing = drawn[0, 399]

    assert (drawn[:, :100] == nothing).all()
    assert (drawn[:, 205:295] != nothing).any(axis=2).all()


def test_the_ground_is_grey_and_darker_than_the_photograph():
    image = Image.new("RGB", (400, 360), (255, 120, 20))
    values = np.zeros((360, 400))
    values[0, 0] = 1
    ground = np.asarray(draw_overlay(image, heat(values), PLAIN), int)[200, 200]

    assert ground.max() - ground.min() < 0.25 * (255 - 20)
    assert ground @ LUMA < np.array([255, 120, 20]) @ LUMA


def test_both_signs_take_their_colours_at_full_opacity():
    values = np.zeros((340, 340))
    values[100:200, 10:110], values[100:200, 200:300] = -2.0, 2.0
    style = PictureStyle(smoothing=0, outline=0, opacity=1)
    drawn = np.asarray(draw_overlay(grey(340, 340), heat(values), style))

    np.testing.assert_array_equal(drawn[150, 60], AGAINST[-1])
    np.testing.assert_array_equal(drawn[150, 250], FOR[-1])
    np.testing.assert_array_equal(
        np.asarray(draw_overlay(grey(340, 340), heat(np.maximum(values, 0)), style))[150, 250], PALETTES["heat"][-1]
    )


def test_the_cropped_part_is_darker_and_recognisable():
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 255, (340, 500, 3), dtype=np.uint8))
    drawn = light(draw_overlay(image, heat(np.zeros((340, 500)), (80, 0, 420, 340)), PLAIN))
    cropped, seen, original = drawn[:, :70], drawn[:, 90:410], light(image)[:, :70]

    assert cropped.mean() < 0.75 * seen.mean()
    assert np.corrcoef(cropped.ravel(), original.ravel())[0, 1] > 0.95
    assert cropped.std() > 5
    assert (np.abs(np.diff(drawn[:, 79:82], axis=1)).max(axis=1) > 3).mean() > 0.9  # the frame


def test_sizes_must_agree():
    with pytest.raises(InputError, match="map is 9x8, its image 8x8"):
        draw_overlay(grey(8, 8), heat(np.zeros((8, 9))))


SIZES = [(1, 1), (16, 16), (32, 20), (500, 375), (375, 500), (900, 60), (60, 900), (1600, 1200), (3000, 10), (10, 3000)]


@pytest.mark.parametrize("size", SIZES)
def test_panels_are_legible_and_bounded(size):
    width, height = panel_size(*size)
    longer = max(panel_size(size[0], size[1], 300))

    assert max(width, height) <= MAX_SIDE
    assert min(width, height) >= MIN_SIDE or max(width, height) == MAX_SIDE
    assert longer == 300


def margins(image: Image.Image, width: int) -> Array:
    """All pixels of the border of a page."""
    pixels = np.asarray(image)
    inner = np.zeros(pixels.shape[:2], bool)
    inner[width:-width, width:-width] = True
    return np.asarray(pixels[~inner])


STYLES = [PictureStyle(), PictureStyle(size=64, numbers=True), PictureStyle(size=1000, cutout=False)]
LONG = "a class with a long name, and many synonyms, one longer than the other, " * 3


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("style", STYLES, ids=["usual", "small", "large"])
def test_figures_keep_their_margin_at_every_size(size, style):
    """Texts, panels and legend all end inside the page: nothing reaches into the border."""
    width, height = size
    shown = heat(hills(width, height), (width * 0.1, 0, width * 0.9, height), title=LONG, facts=LONG)
    drawn = draw_figure(grey(width, height), shown, style, caption="a_file_name_without_any_space_" * 4 + ".jpg")

    assert (margins(drawn, MARGIN - 1) == PAPER).all()
    assert (np.asarray(drawn) == INK).all(axis=2).any()


@pytest.mark.parametrize("size", [(16, 16), (500, 375), (200, 800), (900, 60)])
@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_grids_keep_their_margin_and_show_every_map(size, count):
    width, height = size
    maps = [
        heat(hills(width, height, seed=seed), title=f"{seed} {LONG}", facts="probability 0.5") for seed in range(count)
    ]
    drawn = draw_grid(grey(width, height), maps, title=LONG, facts=LONG, caption="image.png")
    fewer = draw_grid(grey(width, height), maps[:1], title=LONG, facts=LONG, caption="image.png")

    assert (margins(drawn, MARGIN - 1) == PAPER).all()
    assert drawn.width * drawn.height >= fewer.width * fewer.height
    assert 0.2 < drawn.width / drawn.height < 5


def test_a_grid_needs_a_map():
    with pytest.raises(InputError, match="got none"):
        draw_grid(grey(8, 8), [])


ODD = {
    "zeros": np.zeros((24, 32)),
    "even": np.full((24, 32), 3e-9),
    "negative": -np.ones((24, 32)),
    "huge": hills(32, 24) * 1e30,
}


@pytest.mark.parametrize("name", ODD)
def test_odd_maps_make_a_figure(name):
    drawn = draw_figure(grey(32, 24), heat(ODD[name], title="cat\n\x00" * 500), PictureStyle(numbers=True))

    assert drawn.mode == "RGB"
    assert drawn.height > MIN_SIDE


def test_figures_are_deterministic_and_show_the_image_as_it_is():
    image = Image.new("RGB", (400, 360), (0, 160, 0))
    first, second = (draw_figure(image, heat(hills(400, 360), title="t"), caption="c") for _ in range(2))

    assert first.tobytes() == second.tobytes()
    assert (np.asarray(first) == (0, 160, 0)).all(axis=2).sum() > 400 * 360  # the image, and the outlined area alone


def count_panels(style: PictureStyle, values: Array) -> int:
    drawn = draw_figure(grey(400, 400), heat(values), style)
    return round((drawn.width - 2 * MARGIN) / 400)


def test_the_cutout_is_drawn_where_it_helps():
    spot, even = hills(400, 400, count=1), np.ones((400, 400))
    even[:10] = 2.0

    assert count_panels(PictureStyle(), spot) == 3
    assert count_panels(PictureStyle(), even) == 2
    assert count_panels(PictureStyle(cutout=True), even) == 3
    assert count_panels(PictureStyle(cutout=False), spot) == 2
    assert count_panels(PictureStyle(outline=0), spot) == 2


def test_the_overlay_alone_has_the_size_asked_for():
    shown, image = heat(hills(500, 375)), grey(500, 375)

    assert draw_overlay(image, shown).size == (500, 375)
    assert draw_overlay(image, shown, PictureStyle(size=800)).size == (800, 600)
    assert draw_figure(image, shown, PictureStyle(overlay_only=True)).tobytes() == draw_overlay(image, shown).tobytes()


def test_large_photographs_are_drawn_at_the_size_of_the_figure():
    """Drawing 12 megapixels must not take 48 times as long as a quarter of one."""
    values = np.kron(hills(400, 300), np.ones((10, 10), np.float32))
    image = grey(4000, 3000)
    began = time.process_time()
    drawn = draw_figure(image, heat(values))

    assert time.process_time() - began < 5
    assert max(drawn.size) < 4 * MAX_SIDE
