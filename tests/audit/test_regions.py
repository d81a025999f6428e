"""Regions that users name: their words, their place in pictures of any size, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx.audit.regions import read_regions
from gradskip_onnx.errors import InputError
from gradskip_onnx.images.preprocess import Geometry

WHOLE = Geometry((200, 100), (0.0, 0.0, 100.0, 200.0))  # the model sees the whole picture, on 20 x 20 pixels
SIZE = (20, 20)


def area(text: str, geometry: Geometry = WHOLE) -> np.ndarray:
    (region,) = read_regions((f"x={text}",))
    return region.pixels(geometry, SIZE)


@pytest.mark.parametrize(
    ("text", "rows", "columns"),
    [
        ("box:0.25,0.5,0.75,1", slice(10, 20), slice(5, 15)),
        ("corner:bottom-right:0.2", slice(16, 20), slice(16, 20)),
        ("corner:top-left:0.1", slice(0, 2), slice(0, 2)),
        ("edge:top:0.1", slice(0, 2), slice(0, 20)),
        ("edge:right:0.25", slice(0, 20), slice(15, 20)),
    ],
)
def test_places(text, rows, columns):
    expected = np.zeros(SIZE, bool)
    expected[rows, columns] = True

    assert np.array_equal(area(text), expected)


def test_unions():
    assert area("watermark:0.1").sum() == 4 * 2 * 2
    assert area("text:0.1").sum() == 2 * 2 * 20


def test_a_part_that_the_model_does_not_see():
    """A centre crop of the upper half: a region below it is not there, and one across its edge is there in part."""
    upper = Geometry((200, 100), (0.0, 0.0, 100.0, 100.0))

    assert not area("edge:bottom:0.2", upper).any()
    assert area("box:0,0.25,1,0.75", upper).sum() == 10 * 20


def test_a_mask_is_stretched_over_pictures_of_any_size(tmp_path):
    Image.fromarray(np.array([[255, 0], [0, 0]], np.uint8)).save(tmp_path / "mask.png")

    found = area(f"mask:{tmp_path / 'mask.png'}")

    assert found[:10, :10].all()
    assert found.sum() == 100


def test_a_file_of_regions(tmp_path):
    """Masks are found beside the file that names them."""
    Image.fromarray(np.full((2, 2), 255, np.uint8)).save(tmp_path / "all.png")
    file = tmp_path / "regions.toml"
    file.write_text('[regions]\nlogo = "corner:top-left"\neverything = "mask:all.png"\n')

    regions = read_regions(("strip=edge:top",), file)

    assert [region.name for region in regions] == ["strip", "logo", "everything"]
    assert regions[2].facts()["mask_size"] == (2, 2)
    assert regions[1].facts()["kind"] == "corner"


@pytest.mark.parametrize(
    "text",
    [
        "corner:top-left", "=corner:top-left", "x=nowhere:1", "x=corner:middle", "x=corner:top-left:0.7",
        "x=corner:top-left:nan", "x=box:1,2,3,4", "x=box:0,0,1", "x=box:a,b,c,d", "x=edge:top:-1",
        "x=mask:/no/such.png", "<b>=text", "x=text:inf",
    ],
)  # fmt: skip
def test_what_cannot_be_a_region(text):
    with pytest.raises(InputError):
        read_regions((text,))


@pytest.mark.parametrize("content", ["[", "regions = 3", "[regions]\nlogo = 3", "x = 'nowhere'"])
def test_a_file_that_is_none(tmp_path: Path, content):
    file = tmp_path / "regions.toml"
    file.write_text(content)

    with pytest.raises(InputError):
        read_regions((), file)


def test_the_folder_of_a_mask_is_not_recorded(tmp_path):
    Image.fromarray(np.full((2, 2), 255, np.uint8)).save(tmp_path / "mask.png")
    (found,) = read_regions((f"logo=mask:{tmp_path / 'mask.png'}",))

    assert found.facts()["text"] == "mask:mask.png"


def test_an_empty_mask_is_refused(tmp_path):
    Image.fromarray(np.zeros((2, 2), np.uint8)).save(tmp_path / "mask.png")

    with pytest.raises(InputError, match="mask is empty"):
        read_regions((f"x=mask:{tmp_path / 'mask.png'}",))
