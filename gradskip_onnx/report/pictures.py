"""Draws the pictures of a report: maps over images, and, where images must not be shown, maps alone."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from gradskip_onnx.drawing.colours import PALETTES, paint
from gradskip_onnx.drawing.heat_map import HeatMap
from gradskip_onnx.drawing.pictures import draw_overlay
from gradskip_onnx.drawing.style import PictureStyle
from gradskip_onnx.errors import GradskipError
from gradskip_onnx.images.interpolate import resize
from gradskip_onnx.images.preprocess import Geometry, Preprocess, geometry
from gradskip_onnx.output.html_page import data_uri, jpeg_uri
from gradskip_onnx.types import Array

from .content import Content

LARGE, MEDIUM, SMALL = 480, 224, 112  # longer sides, in pixels
QUALITY = 80


@dataclass(frozen=True, slots=True)
class Picture:
    """The address of the map over the image, and of the image alone; None for one that cannot be shown."""

    map: str
    image: str | None
    width: int
    height: int

    @property
    def bytes(self) -> int:
        return len(self.map) + len(self.image or "")


def pictures(content: Content, positions: Iterable[int], side: int, *, with_image: bool = True) -> Iterator[Picture]:
    """The picture of each position, in order."""
    chosen = list(positions)
    preprocess = Preprocess.from_dict(content.facts["preprocess"])
    rows = content.audit.rows(chosen, ("image", "width", "height"))
    for row, scores in zip(rows, content.audit.maps(chosen), strict=True):
        yield _picture(content, row, scores, preprocess, side, with_image)


def mean_picture(mean: Array) -> str:
    """A mean map (rows, columns) as the address of a picture with a pixel a cell, to be shown enlarged."""
    positive = np.maximum(mean, 0)
    strengths = positive / max(float(positive.max()), np.finfo(np.float32).tiny)
    buffer = io.BytesIO()
    Image.fromarray(paint(strengths, PALETTES["heat"])).save(buffer, "PNG", optimize=True)
    return data_uri(buffer.getvalue(), "png")


def _picture(
    content: Content, row: dict[str, Any], scores: Array, preprocess: Preprocess, side: int, with_image: bool
) -> Picture:
    size = (row["height"] or preprocess.size[0], row["width"] or preprocess.size[1])
    photo = _photo(content, row["image"], side)
    shown = photo or Image.new("RGB", _fitting(size, side))
    heat = heat_map(scores, geometry(size, preprocess), (shown.height, shown.width), preprocess)
    drawn = draw_overlay(shown, heat, PictureStyle(size=max(shown.size)))
    image = jpeg_uri(shown, QUALITY) if photo is not None and with_image else None
    return Picture(jpeg_uri(drawn, QUALITY), image, *drawn.size)


def heat_map(scores: Array, seen: Geometry, size: tuple[int, int], preprocess: Preprocess) -> HeatMap:
    """The map of an image at a (height, width) other than its own."""
    down, across = size[0] / seen.image_size[0], size[1] / seen.image_size[1]
    x0, y0, x1, y1 = seen.box
    box = (x0 * across, y0 * down, x1 * across, y1 * down)
    values = Geometry(size, box).place(resize(scores, preprocess.size))
    rows, columns = scores.shape
    return HeatMap(values, ((box[3] - box[1]) / rows, (box[2] - box[0]) / columns), box)


def _photo(content: Content, name: str, side: int) -> Image.Image | None:
    """The image at the size of a picture; None if it must not be shown, or cannot be read any more."""
    if content.open_image is None:
        return None
    try:
        image = content.open_image(name)
    except (GradskipError, OSError, KeyError):
        return None
    return image.convert("RGB").resize(_fitting((image.height, image.width), side), Image.Resampling.LANCZOS)


def _fitting(size: tuple[int, int], side: int) -> tuple[int, int]:
    """(width, height) of a picture whose longer side has `side` pixels."""
    factor = side / max(size)
    return max(1, round(size[1] * factor)), max(1, round(size[0] * factor))
