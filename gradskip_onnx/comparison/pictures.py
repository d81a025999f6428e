"""Draws the worst pairs: what both models saw, and the map of each over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.drawing.heat_map import HeatMap
from gradskip_onnx.drawing.pictures import draw_overlay
from gradskip_onnx.drawing.style import PictureStyle
from gradskip_onnx.drawing.view import negative_matters
from gradskip_onnx.errors import GradskipError
from gradskip_onnx.images.interpolate import resize
from gradskip_onnx.images.preprocess import Preprocess, geometry
from gradskip_onnx.output.html_page import jpeg_uri
from gradskip_onnx.types import Array

SIDE = 320  # longer side, in pixels
GREY = (110, 110, 116)

OpenImage = Callable[[str], Image.Image]  # an upright RGB image by its name


@dataclass(frozen=True, slots=True)
class PairPicture:
    """Addresses that hold the pictures; no image where it cannot be shown."""

    image: str | None
    first: str
    second: str


def draw_pair(
    audits: tuple[Audit, Audit], positions: tuple[int, int], name: str, open_image: OpenImage | None
) -> PairPicture:
    """The image as the first model saw it, and both maps over what each model saw, in the same colours."""
    photo = _photo(name, open_image)
    shown = [_ground(audit, photo) for audit in audits]
    heats = [_heat(audit.map(at), audit, ground) for audit, at, ground in zip(audits, positions, shown, strict=True)]
    style = PictureStyle(size=SIDE, signed=any(negative_matters(heat) for heat in heats))
    first, second = (jpeg_uri(draw_overlay(ground, heat, style)) for ground, heat in zip(shown, heats, strict=True))
    return PairPicture(None if photo is None else jpeg_uri(shown[0]), first, second)


def _photo(name: str, open_image: OpenImage | None) -> Image.Image | None:
    if open_image is None:
        return None
    try:
        return open_image(name).convert("RGB")
    except (GradskipError, OSError, KeyError):  # it is not there any more: the maps still are
        return None


def _ground(audit: Audit, photo: Image.Image | None) -> Image.Image:
    """What the model of an audit saw, or a grey area of its shape."""
    if photo is None:
        height, width = audit.facts["image_size"]
        return Image.new("RGB", _fitting(height, width), GREY)
    return _seen(photo, audit)


def _heat(scores: Array, audit: Audit, shown: Image.Image) -> HeatMap:
    rows, columns = audit.facts["grid"]
    values = resize(scores, (shown.height, shown.width))
    return HeatMap(values, (shown.height / rows, shown.width / columns))


def _seen(photo: Image.Image, audit: Audit) -> Image.Image:
    """The part of an image that the model of an audit saw, at the size of a picture."""
    preprocess = Preprocess.from_dict(audit.facts["preprocess"])
    left, top, right, bottom = (round(side) for side in geometry((photo.height, photo.width), preprocess).box)
    return photo.crop((left, top, right, bottom)).resize(_fitting(*preprocess.size), Image.Resampling.LANCZOS)


def _fitting(height: int, width: int) -> tuple[int, int]:
    """(width, height) of a picture whose longer side has SIDE pixels."""
    factor = SIDE / max(height, width)
    return max(1, round(width * factor)), max(1, round(height * factor))
