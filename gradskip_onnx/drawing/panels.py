"""The panels of a picture: the photograph, the overlay, and the outlined area alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from PIL import Image

from gradskip_onnx.types import Array

from .colours import AGAINST, FOR, PALETTES, paint
from .outline import Line
from .style import PictureStyle
from .view import NONE_BELOW, MapView

MIN_SIDE = 336  # shorter side of a panel, in pixels, unless the other side would exceed MAX_SIDE
MAX_SIDE = 800
COLOUR_KEPT = 0.12  # of the photograph: its own colours must not be mistaken for those of the map
DARKEST, LIGHTEST = 0.09, 0.60  # of the ground, as shares of white: the strongest colour is brighter than any ground
SHADOWS = 0.75  # exponent below 1: dark photographs stay recognisable under the darkening
COVER_CURVE = 0.55  # exponent below 1: medium relevance stays visible over a busy photograph
UNSEEN = 0.55  # brightness of what was cropped away, against the ground of what was seen
SHADE = 0.6  # brightness of the ground around the outlined area where that is shown alone
FRAME = (150, 150, 158)
FINE = 4095  # steps of a strength: covers rise steeply where they begin


def panel_size(width: int, height: int, longer: int | None = None) -> tuple[int, int]:
    """(width, height) at which an image is drawn: `longer` pixels, or its own size within bounds."""
    factor = min(max(1.0, MIN_SIDE / min(width, height)), MAX_SIDE / max(width, height))
    if longer is not None:
        factor = longer / max(width, height)
    return max(1, round(width * factor)), max(1, round(height * factor))


def photograph(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """The image as RGB at the size of a panel; a large one is reduced in two steps, which is quicker."""
    plain = image if image.mode == "RGB" else image.convert("RGB")
    return plain.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)


def ground_of(photo: Image.Image, view: MapView) -> Image.Image:
    """The photograph, grey and darkened; darker still where the model did not see it."""
    calm = Image.blend(photo.convert("L").convert("RGB"), photo, COLOUR_KEPT)
    ground = calm.point(GROUND_TONES)
    if view.whole:
        return ground
    rows, columns = view.seen
    seen = (columns.start, rows.start, columns.stop, rows.stop)
    unseen = ground.point(UNSEEN_TONES)
    unseen.paste(ground.crop(seen), seen)
    return unseen


def overlay_panel(ground: Image.Image, view: MapView, style: PictureStyle, line: Line | None) -> Image.Image:
    """The view over its ground, with the line around its area."""
    drawn = _framed(coloured(ground, view.strength, view.signed, style), view)
    return drawn if line is None else line.over(drawn)


def cutout_panel(photo: Image.Image, ground: Image.Image, view: MapView, line: Line | None) -> Image.Image:
    """The outlined area in its own colours, everything else dark."""
    alone = ground.point(SHADE_TONES)
    alone.paste(photo, mask=Image.fromarray(view.area))
    return alone if line is None else line.over(alone)


def coloured(ground: Image.Image, strength: Array, signed: bool, style: PictureStyle) -> Image.Image:
    """Strengths (H, W) of -1 to 1 in colours over a ground: the stronger, the less of the ground is left."""
    at = ((strength + 1) * FINE + 0.5).astype(np.intp)
    inks = _inks(signed, style.palette, style.opacity)[at].view(np.uint8).reshape(*at.shape, 4)
    drawn, layer = ground.copy(), Image.fromarray(inks)
    drawn.paste(layer, mask=layer)
    return drawn


@lru_cache(16)
def _inks(signed: bool, palette: str, opacity: float) -> Array:
    """Colour and cover, the four bytes of RGBA as one number, of strengths from -1 to 1 in steps of 1 / FINE."""
    much = np.abs(np.arange(-FINE, FINE + 1)) / FINE
    towards = paint(much, FOR if signed else PALETTES[palette])
    colours = np.where(np.arange(-FINE, FINE + 1)[:, None] < 0, paint(much, AGAINST), towards)
    over = np.maximum(much - NONE_BELOW, 0) / (1 - NONE_BELOW)
    covers = np.rint(255 * opacity * over**COVER_CURVE).astype(np.uint8)
    return np.concatenate([colours, covers[:, None]], axis=1).view(np.uint32)[:, 0]


def _tones(curve: Callable[[Array], Array]) -> list[int]:
    """A table for `Image.point` of three channels; the curve maps 0..1 to 0..1."""
    return [round(255 * float(tone)) for tone in curve(np.arange(256) / 255)] * 3


GROUND_TONES = _tones(lambda light: DARKEST + (LIGHTEST - DARKEST) * light**SHADOWS)
UNSEEN_TONES = _tones(lambda light: UNSEEN * light)
SHADE_TONES = _tones(lambda light: SHADE * light)


def _framed(picture: Image.Image, view: MapView) -> Image.Image:
    """A hairline around the part that the model saw, where that is not the whole image."""
    if view.whole:
        return picture
    (top, bottom), (left, right) = ((part.start, part.stop) for part in view.seen)
    framed = picture.copy()
    for edge, inside in (
        ((left, top, right, top + 1), top > 0),
        ((left, bottom - 1, right, bottom), bottom < picture.height),
        ((left, top, left + 1, bottom), left > 0),
        ((right - 1, top, right, bottom), right < picture.width),
    ):
        if inside:
            framed.paste(FRAME, edge)
    return framed
