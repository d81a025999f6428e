"""The options of a picture in the command line: those of Python, refused by name; they change the figure only."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from gradskip_onnx.cli.picture_options import OPTIONS, PALETTE_NAMES
from PIL import Image

from gradskip_onnx.drawing.colours import PALETTES
from gradskip_onnx.drawing.style import DEFAULT_STYLE, PictureStyle
from tests.support.command_line import SETTINGS, fails, run


def test_every_field_is_an_option_and_its_default_is_told():
    text = " ".join(run("explain", "--help").stdout.split())
    for field in dataclasses.fields(PictureStyle):
        assert f"--{OPTIONS.get(field.name, field.name).replace('_', '-')}" in text
    for name in ("palette", "opacity", "smoothing", "outline"):
        after = text.split(f"--{name} ", 1)[1]
        assert after.split("[default: ", 1)[1].startswith(f"{getattr(DEFAULT_STYLE, name)}]")
    assert tuple(PALETTES) == PALETTE_NAMES


WRONG = [
    (("--opacity", "2"), "picture option opacity: got 2.0, allowed: a number from 0 to 1"),
    (("--smoothing", "-1"), "picture option smoothing"),
    (("--outline", "1"), "picture option outline"),
    (("--figure-size", "5"), "picture option size"),
]


@pytest.mark.parametrize(("words", "message"), WRONG, ids=str)
def test_a_wrong_value_is_refused_before_any_work(place, tmp_path, words, message):
    fails(run("explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path / "out", *words), 2, message)
    assert not (tmp_path / "out").exists()


def test_options_change_the_picture_and_not_the_numbers(place, tmp_path):
    command = ("explain", place / "vit.onnx", place / "photos" / "p0.png", *SETTINGS, "-o")
    assert run(*command, tmp_path / "usual").exit_code == 0
    words = ("--palette", "forest", "--smoothing", "0", "--outline", "0.8", "--overlay-only", "--figure-size", "300")
    assert run(*command, tmp_path / "other", *words).exit_code == 0
    with Image.open(tmp_path / "usual" / "p0.png") as usual, Image.open(tmp_path / "other" / "p0.png") as other:
        assert max(other.size) == 300
        assert usual.width > 2 * other.width

    np.testing.assert_array_equal(np.load(tmp_path / "usual" / "p0.npy"), np.load(tmp_path / "other" / "p0.npy"))
