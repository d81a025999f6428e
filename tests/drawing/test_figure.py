"""The figure and its colours: order, range, legibility, no surprises on odd maps."""

import numpy as np
import pytest
from PIL import Image, ImageFont

from gradskip_onnx.drawing.colours import DIVERGING, SEQUENTIAL, paint
from gradskip_onnx.drawing.figure import (
    MAX_SIDE,
    MIN_SIDE,
    Scale,
    elide,
    figure,
    legend,
    overlay,
    panel_size,
    scale_of,
)
from gradskip_onnx.errors import InputError
from gradskip_onnx.types import Array

# Linear sRGB seen by eyes lacking one cone type (Viénot, Brettel and Mollon 1999, rounded).
BLINDNESS = {
    "none": np.eye(3),
    "protan": np.array([[0.11, 0.89, 0.0], [0.11, 0.89, 0.0], [0.0, 0.0, 1.0]]),
    "deutan": np.array([[0.29, 0.71, 0.0], [0.29, 0.71, 0.0], [-0.02, 0.02, 1.0]]),
}


def linear(colours: Array) -> Array:
    unit = colours / 255
    return np.asarray(np.where(unit <= 0.04045, unit / 12.92, ((unit + 0.055) / 1.055) ** 2.4))


def lightness(colours: Array, eye: str = "none") -> Array:
    """CIE L* of what an eye sees."""
    seen = np.clip(linear(colours) @ BLINDNESS[eye].T, 0, 1) @ np.array([0.2126, 0.7152, 0.0722])
    return np.asarray(np.where(seen > 216 / 24389, 116 * np.cbrt(seen) - 16, seen * 24389 / 27))


@pytest.mark.parametrize("eye", BLINDNESS)
def test_more_relevance_is_lighter_for_every_eye(eye):
    steps = np.diff(lightness(SEQUENTIAL[::8], eye))
    assert (steps > 0).all()
    assert lightness(SEQUENTIAL[-1], eye) - lightness(SEQUENTIAL[0], eye) > 70


@pytest.mark.parametrize("eye", BLINDNESS)
def test_signs_can_be_told_apart(eye):
    colours = linear(DIVERGING) @ BLINDNESS[eye].T
    blueness = (colours[:, 2] - colours[:, 0]) / colours.sum(axis=1)
    assert (blueness[:100] > 0.1).all()
    assert (blueness[156:] < -0.1).all()
    assert 124 <= lightness(DIVERGING).argmax() < 132


def test_ends_of_the_scale_take_the_ends_of_the_table():
    np.testing.assert_array_equal(paint(np.array([0.0, 1.0]), SEQUENTIAL), SEQUENTIAL[[0, -1]])


RANGES = [
    (np.array([[1.0, 3.0]]), None, (1.0, 3.0)),
    (np.array([[-1.0, 3.0]]), None, (-3.0, 3.0)),
    (np.array([[-5.0, 3.0]]), None, (-5.0, 5.0)),
    (np.array([[0.0, 2.0, 4.0, 0.0]]), (1, 0, 3, 1), (2.0, 4.0)),
    (np.zeros((3, 3)), None, (0.0, 0.0)),
]


@pytest.mark.parametrize(("values", "box", "expected"), RANGES, ids=str)
def test_range_of_the_legend(values, box, expected):
    scale = scale_of(values, box)
    assert (scale.low, scale.high) == expected


@pytest.mark.parametrize("bad", [np.full((4, 4), np.nan), np.full((4, 4), np.inf), np.zeros(4), np.zeros((1, 4, 4))])
def test_maps_that_cannot_be_drawn(bad):
    with pytest.raises(InputError, match="finite"):
        scale_of(bad)


def test_sizes_must_agree():
    with pytest.raises(InputError, match="map is 9x8, its image 8x8"):
        overlay(Image.new("RGB", (8, 8)), np.zeros((8, 9), np.float32))


def test_overlay_leaves_the_irrelevant_alone_and_fades_the_unseen():
    image = Image.new("RGB", (30, 20), (120, 120, 120))
    values = np.zeros((20, 30), np.float32)
    values[10, 15] = 1.0
    drawn = np.asarray(overlay(image, values, opacity=1.0, box=(5, 0, 25, 20)))
    assert tuple(drawn[10, 15]) == tuple(SEQUENTIAL[-1])
    assert tuple(drawn[2, 10]) == (120, 120, 120)
    assert (drawn[:, :5] > 150).all()
    assert (drawn[:, 25:] > 150).all()


def test_signed_overlay_shows_both_signs():
    values = np.array([[-2.0, 0.0, 2.0]], np.float32)
    drawn = np.asarray(overlay(Image.new("RGB", (3, 1), (128, 128, 128)), values, opacity=1.0))
    np.testing.assert_array_equal(drawn[0, [0, 2]], DIVERGING[[0, -1]])
    assert tuple(drawn[0, 1]) == (128, 128, 128)


@pytest.mark.parametrize("size", [(1, 1), (32, 32), (500, 375), (64, 20), (5000, 4000), (3000, 10), (10, 3000)])
def test_panels_are_legible_and_bounded(size):
    width, height = panel_size(*size)
    assert max(width, height) <= MAX_SIDE
    assert min(width, height) >= MIN_SIDE or max(width, height) == MAX_SIDE


@pytest.mark.parametrize(
    "values", [np.zeros((24, 32)), np.full((24, 32), 3e-9), -np.ones((24, 32))], ids=["0", "c", "-1"]
)
def test_odd_maps_make_a_figure(values):
    drawn = figure(Image.new("RGB", (32, 24)), values.astype(np.float32), title="cat\n\x00" * 500, subtitle="s")
    assert drawn.mode == "RGB"
    assert drawn.height > MIN_SIDE
    assert drawn.width > 2 * MIN_SIDE


def test_figure_is_deterministic_and_shows_image_map_and_bar():
    image = Image.new("RGB", (400, 360), (0, 160, 0))
    values = np.zeros((360, 400), np.float32)
    values[100:200, 100:200] = 1.0
    first, second = (figure(image, values, title="t", subtitle="s", caption="c") for _ in range(2))
    assert first.tobytes() == second.tobytes()
    pixels = np.asarray(first)
    assert (pixels == (0, 160, 0)).all(axis=2).sum() == 400 * 360
    assert (pixels == SEQUENTIAL[-1]).all(axis=2).any()
    assert (pixels == SEQUENTIAL[0]).all(axis=2).any()


LEGENDS = [
    (0.0, 1.0, None, "relevance"),
    (0.9, 1.0, None, "relevance, nearly even"),
    (-0.9, 1.0, None, "relevance"),
    (0.9, 1.0, (0, 0, 2, 4), "relevance, nearly even (faded: cropped away)"),
]


@pytest.mark.parametrize(("low", "high", "box", "expected"), LEGENDS, ids=str)
def test_a_flat_map_is_called_flat(low, high, box, expected):
    values = np.linspace(low, high, 16).reshape(4, 4)
    assert legend(values, box, scale_of(values)) == expected


def test_texts_are_cut_to_fit():
    font = ImageFont.load_default(14)
    cut = elide("a long name of a class " * 20, font, 100)
    assert cut.endswith("…")
    assert font.getlength(cut) <= 100
    assert elide("short", font, 100) == "short"


def test_colours_do_not_reach_for_a_few_spikes():
    """One pixel in a thousand must not make all others look pale; the bar says that there is more."""
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, (100, 100)).astype(np.float32)
    plain = scale_of(values)
    values.flat[::1000] = 20
    spiky = scale_of(values)
    positive = scale_of(np.abs(values))

    assert not plain.clipped
    assert plain.high == np.abs(values[values < 20]).max()
    assert spiky.clipped
    assert spiky.low == -spiky.high
    assert 0.9 < spiky.high < 1.1
    assert positive.clipped
    assert 0.9 < positive.high < 1.1
    assert spiky.unit(values).max() == 1
    assert "strongest 0.5% in one colour" in legend(values, None, spiky)


def test_a_single_pixel_keeps_its_colour():
    values = np.zeros((40, 40), np.float32)
    values[3, 4] = 1
    assert scale_of(values) == Scale(0.0, 1.0)
