"""Draws the figure of a map: image and overlay side by side, with a colour bar and a title."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.interpolate import Box, place
from gradskip_onnx.types import Array

from .colours import DIVERGING, SEQUENTIAL, paint

MIN_SIDE = 336  # shorter side of a panel, in pixels, unless the other side would exceed MAX_SIDE
MAX_SIDE = 1024
UNIT_SIDE = 600  # a panel of this size is drawn with texts of 13 to 22 pixels
MARGIN = 20
HEADER = MARGIN + 60
GAP = 14
BAR = 16
BAR_LEAST = 60  # room for three numbers
BAR_TEXT = 62  # room for a number such as -1.23e-05
INK, FAINT, PAPER = (24, 24, 27), (110, 110, 118), (255, 255, 255)
STRENGTH_CURVE = 0.7  # exponent below 1: medium relevance stays visible over a busy image
NEARLY_EVEN = 0.5  # minimum / maximum above which a map is called nearly even
SPIKES = 0.005  # share of the pixels that may exceed the range of the colours
SPIKY = 1.5  # maximum / range from which the range is clipped: else a few strong pixels make the whole map pale
UNSEEN_LIGHT = 0.55  # how far the part the model does not see fades towards white

Ink = tuple[int, int, int]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


@dataclass(frozen=True, slots=True)
class Scale:
    """The range of a map and the colours for it; a map with negative values is centred at zero."""

    low: float
    high: float
    clipped: bool = False  # whether a few values lie outside the range

    @property
    def signed(self) -> bool:
        return self.low < 0

    @property
    def table(self) -> Array:
        return DIVERGING if self.signed else SEQUENTIAL

    def unit(self, values: Array) -> Array:
        """Values scaled from the range to 0..1; a constant map becomes zeros."""
        span = self.high - self.low
        spread: Array = (values - self.low) / span if span > 0 else np.zeros_like(values)
        return np.clip(spread, 0.0, 1.0)

    def strength(self, values: Array) -> Array:
        """How strongly each pixel is coloured, 0..1: the distance from the low end, or from zero if signed."""
        unit = self.unit(values)
        return np.abs(2 * unit - 1) if self.signed else unit


def scale_of(values: Array, box: Box | None = None) -> Scale:
    """The colour scale of a map, from its values inside `box`; spikes are clipped."""
    if values.ndim != 2 or not np.isfinite(values).all():
        raise InputError(f"a map to draw has rows, columns and finite values, got shape {values.shape}")
    rows, columns = _slices(values.shape[0], values.shape[1], box)
    visible = values[rows, columns]
    low, high = float(visible.min()), float(visible.max())
    base = 0.0 if low < 0 else low
    sizes = np.abs(visible - base)
    reach, usual = float(sizes.max()), float(np.quantile(sizes, 1 - SPIKES))
    clipped = reach > SPIKY * usual > 0
    top = usual if clipped else reach
    return Scale(-top, top, clipped) if low < 0 else Scale(low, low + top if clipped else high, clipped)


def _slices(height: int, width: int, box: Box | None) -> tuple[slice, slice]:
    """Rows and columns of the pixels whose centres lie in the box, at least one of each; no box: all."""
    if box is None:
        return slice(0, height), slice(0, width)
    x0, y0, x1, y1 = (round(edge) for edge in box)
    y0, x0 = min(y0, height - 1), min(x0, width - 1)
    return slice(y0, max(y1, y0 + 1)), slice(x0, max(x1, x0 + 1))


def overlay(image: Image.Image, values: Array, *, opacity: float = 0.85, box: Box | None = None) -> Image.Image:
    """The map drawn over the image, each pixel by its strength; the part outside `box` is faded."""
    if (image.height, image.width) != values.shape:
        raise InputError(f"the map is {values.shape[1]}x{values.shape[0]}, its image {image.width}x{image.height}")
    scale = scale_of(values, box)
    picture = np.asarray(image.convert("RGB"), dtype=np.float32)
    grey = picture @ np.array([0.299, 0.587, 0.114], np.float32)
    calm = 0.5 * picture + 0.5 * grey[..., None]  # paler, so that its colours are not mistaken for those of the map
    cover = opacity * scale.strength(values)[..., None] ** STRENGTH_CURVE
    mixed = calm * (1 - cover) + paint(scale.unit(values), scale.table) * cover
    faded = np.repeat((grey + (255 - grey) * UNSEEN_LIGHT)[..., None], 3, axis=2)
    rows, columns = _slices(values.shape[0], values.shape[1], box)
    faded[rows, columns] = mixed[rows, columns]
    return Image.fromarray(np.rint(faded).astype(np.uint8))


def panel_size(width: int, height: int) -> tuple[int, int]:
    """(width, height) at which an image is drawn: small images enlarged, large ones shrunk."""
    factor = min(max(1.0, MIN_SIDE / min(width, height)), MAX_SIDE / max(width, height))
    return max(1, round(width * factor)), max(1, round(height * factor))


def resample(values: Array, size: tuple[int, int]) -> Array:
    """A map resampled to (width, height), the order that Pillow uses."""
    width, height = size
    return place(values, (height, width), (0, 0, width, height))


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
    small = image.convert("RGB").resize((width, height), Image.Resampling.LANCZOS)  # a photograph: Pillow's sharpest
    covered = overlay(small, resample(values, (width, height)), opacity=opacity, box=drawn_box)

    page = Page(width, height)
    sheet = page.sheet
    page.text(MARGIN, MARGIN - 4, title, 22, INK, page.width - 2 * MARGIN)
    page.text(MARGIN, MARGIN + 28, subtitle, 14, FAINT, page.width - 2 * MARGIN)
    for left, panel, below in ((page.left, small, caption), (page.right, covered, legend(values, box, scale))):
        sheet.paste(panel, (round(left * page.unit), round(HEADER * page.unit)))
        page.text(left, page.bottom + 6, below, 13, FAINT, width / page.unit)
    page.bar(scale)
    return sheet


def legend(values: Array, box: Box | None, scale: Scale) -> str:
    """The text below the overlay; it says if a map is nearly even, since colours always span the whole range."""
    height, width = values.shape
    whole = _slices(height, width, box) == (slice(0, height), slice(0, width))
    flat = not scale.signed and scale.low > NEARLY_EVEN * scale.high
    spikes = f", strongest {SPIKES:.1%} in one colour" if scale.clipped else ""
    return "relevance" + (", nearly even" if flat else "") + spikes + ("" if whole else " (faded: cropped away)")


class Page:
    """A sheet for two panels and a colour bar; its unit of length, and so the text size, grows with the panels."""

    def __init__(self, width: int, height: int) -> None:
        self.unit = max(1.0, max(width, height) / UNIT_SIDE)
        self.left, self.right = float(MARGIN), MARGIN + width / self.unit + GAP
        self.bottom = HEADER + max(BAR_LEAST, height / self.unit)
        self.bar_left = self.right + width / self.unit + GAP
        self.width = self.bar_left + BAR + BAR_TEXT + MARGIN
        size = round(self.width * self.unit), round((self.bottom + 22 + MARGIN) * self.unit)
        self.sheet = Image.new("RGB", size, PAPER)
        self.draw = ImageDraw.Draw(self.sheet)

    def text(self, x: float, y: float, text: str, size: int, ink: Ink, room: float) -> None:
        font = ImageFont.load_default(size * self.unit)
        self.draw.text((x * self.unit, y * self.unit), elide(text, font, room * self.unit), font=font, fill=ink)

    def bar(self, scale: Scale) -> None:
        """The colours from high to low, with numbers at both ends and in the middle."""
        left, top, bottom = (round(edge * self.unit) for edge in (self.bar_left, HEADER, self.bottom))
        right = left + round(BAR * self.unit)
        ramp = paint(np.linspace(1.0, 0.0, bottom - top), scale.table)
        self.draw.rectangle((left - 1, top - 1, right, bottom), outline=FAINT)
        self.sheet.paste(Image.fromarray(np.repeat(ramp[:, None], right - left, axis=1)), (left, top))
        for share, value in ((0.0, scale.high), (0.5, (scale.low + scale.high) / 2), (1.0, scale.low)):
            y = top + round(share * (bottom - top - 1))
            self.draw.line((right + 1, y, right + round(4 * self.unit), y), fill=FAINT)
            lifted = y / self.unit - 14 * share  # the texts stay inside the height of the bar
            sign = {scale.high: "> ", scale.low: "< " * scale.signed}.get(value, "") * scale.clipped
            self.text(self.bar_left + BAR + 7, lifted, f"{sign}{value:.3g}", 13, INK, BAR_TEXT + MARGIN)


def elide(text: str, font: Font, room: float) -> str:
    """The text on one line, cut with an ellipsis to fit `room` pixels; control characters become spaces."""
    flat = "".join(character if character.isprintable() else " " for character in text[:1000])
    if font.getlength(flat) <= room:
        return flat
    fits = 0
    for length in range(1, len(flat)):
        if font.getlength(flat[:length].rstrip() + "…") > room:
            break
        fits = length
    return flat[:fits].rstrip() + "…"
