"""The figure: image and overlay side by side, with a colour bar and a title."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from .colours import DIVERGING, SEQUENTIAL, paint
from .errors import InputError
from .types import Array

Box = tuple[float, float, float, float]

MIN_SIDE = 336  # a side of a panel, unless the other side would pass MAX_SIDE
MAX_SIDE = 1024
MARGIN = 20
GAP = 14
BAR = 16
BAR_TEXT = 62  # room for a number such as -1.23e-05
INK, FAINT, PAPER = (24, 24, 27), (110, 110, 118), (255, 255, 255)
STRENGTH_CURVE = 0.7  # below 1: middling relevance stays visible over a busy image
UNSEEN_LIGHT = 0.55  # how far towards paper the part goes that the model did not see

Ink = tuple[int, int, int]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


@dataclass(frozen=True, slots=True)
class Scale:
    """The range of a map and the colours for it; a map with negative values is centred at zero."""

    low: float
    high: float

    @property
    def signed(self) -> bool:
        return self.low < 0

    @property
    def table(self) -> Array:
        return DIVERGING if self.signed else SEQUENTIAL

    def unit(self, values: Array) -> Array:
        """Values spread over 0..1; a constant map is all 0 (or the middle, if signed)."""
        span = self.high - self.low
        spread: Array = (values - self.low) / span if span > 0 else np.zeros_like(values)
        return np.clip(spread, 0.0, 1.0)

    def strength(self, values: Array) -> Array:
        """How much of the colour is laid over the image, 0..1."""
        unit = self.unit(values)
        return np.abs(2 * unit - 1) if self.signed else unit


def scale_of(values: Array, box: Box | None = None) -> Scale:
    """The range of the part of a map that was seen."""
    if values.ndim != 2 or not np.isfinite(values).all():
        raise InputError(f"a map to draw has rows, columns and finite values, got shape {values.shape}")
    rows, columns = _slices(values.shape[0], values.shape[1], box)
    seen = values[rows, columns]
    low, high = float(seen.min()), float(seen.max())
    reach = max(-low, high)
    return Scale(-reach, reach) if low < 0 else Scale(low, high)


def _slices(height: int, width: int, box: Box | None) -> tuple[slice, slice]:
    """The pixels whose centres lie in the box; at least one."""
    if box is None:
        return slice(0, height), slice(0, width)
    x0, y0, x1, y1 = (round(edge) for edge in box)
    y0, x0 = min(y0, height - 1), min(x0, width - 1)
    return slice(y0, max(y1, y0 + 1)), slice(x0, max(x1, x0 + 1))


def overlay(image: Image.Image, values: Array, *, opacity: float = 0.85, box: Box | None = None) -> Image.Image:
    """The map over the image, each pixel covered in proportion to its relevance; the unseen part fades."""
    if (image.height, image.width) != values.shape:
        raise InputError(f"the map is {values.shape[1]}x{values.shape[0]}, its image {image.width}x{image.height}")
    scale = scale_of(values, box)
    picture = np.asarray(image.convert("RGB"), dtype=np.float32)
    grey = picture @ np.array([0.299, 0.587, 0.114], np.float32)
    calm = 0.5 * picture + 0.5 * grey[..., None]  # the colours of the map must not be mistaken for the image's
    cover = opacity * scale.strength(values)[..., None] ** STRENGTH_CURVE
    mixed = calm * (1 - cover) + paint(scale.unit(values), scale.table) * cover
    faded = np.repeat((grey + (255 - grey) * UNSEEN_LIGHT)[..., None], 3, axis=2)
    rows, columns = _slices(values.shape[0], values.shape[1], box)
    faded[rows, columns] = mixed[rows, columns]
    return Image.fromarray(np.rint(faded).astype(np.uint8))


def panel_size(width: int, height: int) -> tuple[int, int]:
    """The size at which an image is drawn: legible if small, bounded if large."""
    factor = min(max(1.0, MIN_SIDE / min(width, height)), MAX_SIDE / max(width, height))
    return max(1, round(width * factor)), max(1, round(height * factor))


def resample(values: Array, size: tuple[int, int]) -> Array:
    """A map at another (width, height)."""
    if (values.shape[1], values.shape[0]) == size:
        return values
    return np.asarray(Image.fromarray(values.astype(np.float32)).resize(size, Image.Resampling.BILINEAR))


def figure(
    image: Image.Image,
    values: Array,
    *,
    title: str,
    subtitle: str = "",
    caption: str = "",
    box: Box | None = None,
    opacity: float = 0.85,
) -> Image.Image:
    """Image and overlay side by side; `box` is the part of the image that the model saw."""
    scale = scale_of(values, box)
    width, height = panel_size(image.width, image.height)
    zoom = (width / image.width, height / image.height)
    drawn_box = None if box is None else (box[0] * zoom[0], box[1] * zoom[1], box[2] * zoom[0], box[3] * zoom[1])
    small = image.convert("RGB").resize((width, height), Image.Resampling.LANCZOS)
    covered = overlay(small, resample(values, (width, height)), opacity=opacity, box=drawn_box)

    header = MARGIN + 60
    sheet = Image.new("RGB", (2 * MARGIN + 2 * width + 2 * GAP + BAR + BAR_TEXT, header + height + 22 + MARGIN), PAPER)
    draw = ImageDraw.Draw(sheet)
    room = sheet.width - 2 * MARGIN
    _text(draw, (MARGIN, MARGIN - 4), title, 22, INK, room)
    _text(draw, (MARGIN, MARGIN + 28), subtitle, 14, FAINT, room)
    second = MARGIN + width + GAP
    for left, panel, below in ((MARGIN, small, caption), (second, covered, _legend(values, box))):
        sheet.paste(panel, (left, header))
        _text(draw, (left, header + height + 6), below, 13, FAINT, width)
    _bar(sheet, draw, (second + width + GAP, header, height), scale)
    return sheet


def _legend(values: Array, box: Box | None) -> str:
    height, width = values.shape
    whole = _slices(height, width, box) == (slice(0, height), slice(0, width))
    return "relevance" if whole else "relevance (the faded part was cropped away before the model)"


def _bar(sheet: Image.Image, draw: ImageDraw.ImageDraw, place: tuple[int, int, int], scale: Scale) -> None:
    """The legend: colours from high to low, with numbers at both ends and in the middle."""
    left, top, height = place
    ramp = paint(np.linspace(1.0, 0.0, height), scale.table)
    sheet.paste(Image.fromarray(np.repeat(ramp[:, None], BAR, axis=1)), (left, top))
    draw.rectangle((left - 1, top - 1, left + BAR, top + height), outline=FAINT)
    middle = (scale.low + scale.high) / 2
    for share, value in ((0.0, scale.high), (0.5, middle), (1.0, scale.low)):
        y = top + round(share * (height - 1))
        draw.line((left + BAR + 1, y, left + BAR + 4, y), fill=FAINT)
        offset = round(share * 14)  # the texts stay inside the height of the bar
        _text(draw, (left + BAR + 7, y - offset), f"{value:.3g}", 13, INK, BAR_TEXT + MARGIN)


def _text(
    draw: ImageDraw.ImageDraw, at: tuple[int, int], text: str, size: int, ink: tuple[int, ...], room: int
) -> None:
    font = ImageFont.load_default(size)
    draw.text(at, elide(text, font, room), font=font, fill=ink)


def elide(text: str, font: Font, room: float) -> str:
    """A text cut to fit, with an ellipsis; control characters cannot break the line."""
    flat = "".join(character if character.isprintable() else " " for character in text[:1000])
    if font.getlength(flat) <= room:
        return flat
    fits = 0
    for length in range(1, len(flat)):
        if font.getlength(flat[:length].rstrip() + "…") > room:
            break
        fits = length
    return flat[:fits].rstrip() + "…"
