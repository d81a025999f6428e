"""Draws the worst pairs: what both models saw, and the map of each over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.drawing.heat_map import HeatMap
from gradskip_onnx.drawing.pictures import draw_overlay
from gradskip_onnx.drawing.style import PictureStyle
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
    """The image as the first model saw it, and both maps over what each model saw."""
    photo = _photo(name, open_image)
    drawn = [_over(audit, position, photo) for audit, position in zip(audits, positions, strict=True)]
    image = None if photo is None else jpeg_uri(_seen(photo, audits[0]))
    return PairPicture(image, jpeg_uri(drawn[0]), jpeg_uri(drawn[1]))


def _photo(name: str, open_image: OpenImage | None) -> Image.Image | None:
    if open_image is None:
        return None
    try:
        return open_image(name).convert("RGB")
    except (GradskipError, OSError, KeyError):  # it is not there any more: the maps still are
        return None


def _over(audit: Audit, position: int, photo: Image.Image | None) -> Image.Image:
    scores = audit.map(position)
    shown = Image.new("RGB", _fitting(*audit.facts["image_size"]), GREY) if photo is None else _seen(photo, audit)
    return draw_overlay(shown, _heat(scores, audit, shown), PictureStyle(size=SIDE))


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
