"""The words of the legend say what is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import ImageFont

from gradskip_onnx.drawing.blocks import elide, flow, text_block, wrap
from gradskip_onnx.drawing.legend import legend_block, words
from gradskip_onnx.drawing.style import PictureStyle
from gradskip_onnx.drawing.view import MapView, view_of
from gradskip_onnx.types import Array

from .scenes import grey, heat, hills


def seen(values: Array, style: PictureStyle, box: tuple[float, float, float, float] | None = None) -> MapView:
    return view_of(heat(values, box), values.shape[::-1], style)


def test_the_usual_legend():
    style = PictureStyle()
    found = words(seen(np.pad(hills(60, 60), 20), style), style)

    assert found.ends == ("none", "more relevant")
    assert found.line == "smallest area that holds half of the positive relevance"
    assert found.notes == ("smoothed for the eye by 0.4 of a patch",)


def test_signs_are_named():
    style = PictureStyle()

    assert words(seen(hills(60, 60) - 0.5, style), style).ends == ("against", "for the class")


def test_a_map_without_zero_has_a_least():
    style = PictureStyle()
    found = words(seen(hills(60, 60) + 9, style), style)

    assert found.ends == ("least", "more relevant")
    assert "nearly even: colours span small differences" in found.notes


def test_numbers_are_optional():
    style = PictureStyle(numbers=True, smoothing=0, outline=0.3)
    found = words(seen(np.array([[0.0, 0.0, 0.25, 0.5]]), style), style)

    assert found.ends == ("none (0)", "more relevant (0.5)")
    assert found.line == "smallest area that holds 30% of the positive relevance, 25.0% of what the model saw"
    assert found.notes == ()


def test_nothing_to_draw_is_said():
    style = PictureStyle(smoothing=0)
    found = words(seen(np.zeros((9, 9)), style), style)

    assert (found.ends, found.line) == (("", ""), "")
    assert found.notes == ("nothing to draw: relevance is the same everywhere",)


def test_cropping_spikes_and_tiny_patches_are_said():
    style = PictureStyle(smoothing=0)
    values = np.random.default_rng(0).uniform(0, 1, (100, 100))
    values[50, 50] = 20

    assert words(seen(values, style, (10, 0, 90, 100)), style).notes == (
        "strongest 0.5% in one colour",
        "dark, outside the frame: cropped away, not seen by the model",
    )


def test_several_maps_have_several_scales():
    style = PictureStyle(numbers=True)
    found = words(seen(hills(60, 60), style), style, several=True)

    assert found.notes[0] == "each map has its own scale"
    assert "(" not in found.ends[1]


@pytest.mark.parametrize("width", [300, 400, 2000])
@pytest.mark.parametrize("unit", [1.0, 1.7])
def test_a_legend_is_as_wide_as_it_may_be(width, unit):
    views = [seen(hills(60, 60) - offset, PictureStyle()) for offset in (0, 0.5)]

    assert legend_block(views, PictureStyle(numbers=True), round(width * unit), unit).width <= round(width * unit)
    assert legend_block(views[1:], PictureStyle(numbers=True), round(width * unit), unit).width <= round(width * unit)


def test_texts_are_wrapped_and_nothing_is_lost():
    font = ImageFont.load_default(14)
    text = "a long name of a class " * 20 + "averyverylongwordwithoutanyspaceinitatall" * 3
    lines = wrap(text, font, 100)

    assert all(font.getlength(line) <= 100 for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert text_block(text, 100, 14).height == round(1.3 * 14 * len(lines))


def test_texts_are_cut_where_lines_are_counted():
    font = ImageFont.load_default(14)
    cut = elide("a long name of a class " * 20, font, 100)

    assert cut.endswith("…")
    assert font.getlength(cut) <= 100
    assert elide("short", font, 100) == "short"
    assert text_block("a long name of a class " * 20, 100, 14, lines=2).height == round(1.3 * 14 * 2)


def test_blocks_flow_into_new_rows():
    blocks = [grey(40, 10) for _ in range(4)]

    assert flow(blocks, 100, 9).size == (89, 23)
    assert flow(blocks, 1000, 9).size == (187, 10)
