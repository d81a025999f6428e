"""The images of the pages are what the code draws."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx.drawing.colours import PALETTES
from gradskip_onnx.drawing.heat_map import FINEST
from gradskip_onnx.drawing.panels import MAX_SIDE, MIN_SIDE
from gradskip_onnx.drawing.pictures import CUTOUT_BELOW
from gradskip_onnx.drawing.style import PictureStyle
from gradskip_onnx.drawing.view import NONE_BELOW, SPIKES

from .page_images import IMAGES, pixels

FOLDER = Path(__file__).parent.parent.parent / "docs" / "images"
ROUNDING = 0.5  # mean difference of the pixels: another ONNX Runtime moves the line by a fraction of a pixel


@pytest.mark.slow
@pytest.mark.parametrize("name", IMAGES)
def test_images_are_up_to_date(name):
    with Image.open(FOLDER / name) as image:
        stored = np.asarray(image.convert("RGB"), int)
    drawn = pixels(name).astype(int)

    assert stored.shape == drawn.shape
    assert np.abs(stored - drawn).mean() < ROUNDING


def page(path: Path) -> str:
    return path.read_text(encoding="utf-8")


READING = FOLDER.parent / "reading-a-picture.md"


def test_images_are_small_and_every_one_is_shown():
    shown = page(READING) + page(FOLDER.parent.parent / "README.md")

    assert [name for name in IMAGES if f"images/{name}" not in shown] == []
    assert all((FOLDER / name).stat().st_size < 200_000 for name in IMAGES)


def test_every_option_is_on_the_page_with_its_default():
    for field in dataclasses.fields(PictureStyle):
        (row,) = re.findall(rf"^\| .* \| `{field.name}` \| (.*?) \|", page(READING), re.MULTILINE)
        if field.default not in (None, False):
            assert row.strip("`") == str(field.default)
    assert [name for name in PALETTES if f"`{name}` (" not in page(READING)] == []


def test_numbers_on_the_page_are_those_of_the_code():
    text = " ".join(page(READING).split())

    assert f"below {NONE_BELOW:.0%} of the strongest".replace("%", " %") in text
    assert f"the strongest {SPIKES:.1%} share".replace("%", " %") in text
    assert f"more than {CUTOUT_BELOW:.0%} of what the model saw".replace("%", " %") in text
    assert f"more than {FINEST} a side" in text
    assert f"the image's, {MIN_SIDE} to {MAX_SIDE}" in text
