"""The panels of a picture: the photograph, the overlay, and the outlined area alone."""

from __future__ import annotations

import numpy as np
from PIL import Image

from gradskip_onnx.types import Array

from .colours import AGAINST, FOR, PALETTES, paint
from .outline import draw_line, line_width
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


def overlay_panel(photo: Image.Image, view: MapView, style: PictureStyle) -> Image.Image:
    """The view over a calm, darkened grey photograph of the same size."""
    drawn = coloured(_ground(photo, view), view.strength, view.signed, style)
    return as_image(draw_line(_framed(drawn, view), view.area, line_width(photo.size)))


def coloured(ground: Array, strength: Array, signed: bool, style: PictureStyle) -> Array:
    """Strengths (H, W) in colours over a ground (H, W, 3): the stronger, the less of the ground is left."""
    drawn = ground.astype(np.float32)
    for sign, table in ((1, FOR if signed else PALETTES[style.palette]), (-1, AGAINST)):
        shown = sign * strength > NONE_BELOW
        much = np.abs(strength[shown])[:, None]
        cover = style.opacity * ((much - NONE_BELOW) / (1 - NONE_BELOW)) ** COVER_CURVE
        drawn[shown] += cover * (paint(much[:, 0], table) - drawn[shown])
    return drawn


def cutout_panel(photo: Image.Image, view: MapView) -> Image.Image:
    """The outlined area in its own colours, everything else dark."""
    alone = _ground(photo, view) * np.float32(SHADE)
    alone[view.area] = np.asarray(photo)[view.area]
    return as_image(draw_line(alone, view.area, line_width(photo.size)))


def _ground(photo: Image.Image, view: MapView) -> Array:
    """The photograph, grey and darkened; darker still where the model did not see it."""
    calm = Image.blend(photo.convert("L").convert("RGB"), photo, COLOUR_KEPT)
    tones = 255 * (DARKEST + (LIGHTEST - DARKEST) * (np.arange(256) / 255) ** SHADOWS)
    ground = tones.astype(np.float32)[np.asarray(calm)]
    unseen: Array = ground * np.float32(UNSEEN)
    unseen[view.seen] = ground[view.seen]
    return unseen


def _framed(picture: Array, view: MapView) -> Array:
    """A hairline around the part that the model saw, where that is not the whole image."""
    if view.whole:
        return picture
    rows, columns = view.seen
    framed = picture.copy()
    height, width = view.values.shape
    for row, inside in ((rows.start, rows.start > 0), (rows.stop - 1, rows.stop < height)):
        if inside:
            framed[row, columns] = FRAME
    for column, inside in ((columns.start, columns.start > 0), (columns.stop - 1, columns.stop < width)):
        if inside:
            framed[rows, column] = FRAME
    return framed


def as_image(pixels: Array) -> Image.Image:
    """Pixels (H, W, 3) in 0..255 as an image."""
    return Image.fromarray(np.rint(np.clip(pixels, 0, 255)).astype(np.uint8))
