"""The choices of a picture: every wrong value is refused by name, with what works."""

from __future__ import annotations

import dataclasses

import pytest

from gradskip_onnx.drawing.style import PictureStyle
from gradskip_onnx.errors import InputError

WRONG: dict[str, list[object]] = {
    "palette": ["jet", 3, None],
    "opacity": [-0.1, 1.1, "1", True, float("nan")],
    "smoothing": [-1, 5, float("inf"), None],
    "outline": [-0.5, 1, "half"],
    "overlay_only": [1, None],
    "signed": ["yes", 1],
    "cutout": [0],
    "size": [0, 63, 100_000, 300.0, True],
    "numbers": ["no"],
}


def test_every_field_is_checked():
    assert set(WRONG) == {field.name for field in dataclasses.fields(PictureStyle)}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_wrong_value_is_named(name, value):
    with pytest.raises(InputError, match=rf"picture option {name}: got .*, allowed: \S"):
        PictureStyle(**{name: value})


def test_right_values_are_kept():
    style = PictureStyle(palette="forest", opacity=0, smoothing=0, outline=0, signed=False, cutout=True, size=64)

    assert (style.palette, style.opacity, style.outline, style.size) == ("forest", 0, 0, 64)
