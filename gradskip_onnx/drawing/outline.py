"""The line around the smallest area that holds a given share of the positive relevance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image, ImageFilter

from gradskip_onnx.types import Array

WIDTH = 1 / 220  # of the line, as a share of the side of a square as large as the panel
WIDTHS = (1.6, 6.0)  # bounds of it, in pixels
CASING = 2.2  # width of the dark casing, in widths of the line: the line is read on light and on dark ground
LINE, DARK = (255, 255, 255), (12, 12, 16)


def smallest_area(values: Array, share: float) -> Array:
    """True for the strongest pixels that together hold `share` of the sum of positive values; equal ones stay together.

    Without positive values, or for a share of 0, the area is empty.
    """
    positive = np.maximum(values, 0)
    strongest = np.sort(positive, axis=None)[::-1]
    held = np.cumsum(strongest, dtype=np.float64)
    if share <= 0 or held[-1] <= 0:
        return np.zeros(values.shape, bool)
    level = strongest[min(int(np.searchsorted(held, share * held[-1])), held.size - 1)]
    return np.asarray(positive >= level)


def line_width(size: tuple[int, int]) -> float:
    """Pixels of the line on a panel of this size."""
    return float(np.clip(math.sqrt(size[0] * size[1]) * WIDTH, *WIDTHS))


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """How far a line and its dark casing cover the pixels around an area."""

    corner: tuple[int, int]  # left and top of the part of the picture that the covers are about
    casing: Image.Image  # 0 to 255
    core: Image.Image

    def over(self, picture: Image.Image) -> Image.Image:
        """The picture with the line drawn over it."""
        drawn = picture.copy()
        for colour, cover in ((DARK, self.casing), (LINE, self.core)):
            drawn.paste(colour, (*self.corner, self.corner[0] + cover.width, self.corner[1] + cover.height), cover)
        return drawn


def line_around(area: Array, width: float) -> Line | None:
    """The cased line around `area` (H, W); edges of the picture itself get none. None for an empty area."""
    if not area.any():
        return None
    # A blurred step is the normal distribution of the distance to the step: its quantiles are lines at given distances.
    margin = math.ceil(4 * width)
    mask = Image.fromarray(np.pad(area, margin, mode="edge").astype(np.uint8) * 255)
    x0, y0, x1, y1 = mask.getbbox() or (0, 0, 0, 0)
    high, wide = area.shape
    left, top = max(x0 - 2 * margin, 0), max(y0 - 2 * margin, 0)  # in pixels of the picture, a margin around the area
    right, bottom = min(x1, wide), min(y1, high)
    around = (left, top, right + 2 * margin, bottom + 2 * margin)
    soft = mask.crop(around).filter(ImageFilter.GaussianBlur(width))
    soft = soft.crop((margin, margin, soft.width - margin, soft.height - margin))
    casing, core = _covers(width)
    return Line((left, top), soft.point(casing), soft.point(core))


@lru_cache(64)
def _covers(width: float) -> tuple[bytes, bytes]:
    """Covers of casing and core, 0 to 255, for each of the 256 values of a blurred step."""
    distance = np.abs(_quantile(np.arange(1, 255) / 255)) * width
    covers = (0.75 * _within(distance, CASING * width / 2), _within(distance, width / 2))
    casing, core = (np.pad(np.rint(255 * cover), 1).astype(np.uint8).tobytes() for cover in covers)
    return casing, core


def _quantile(shares: Array) -> Array:
    """Quantiles of the normal distribution, by the logistic one, which is close enough for a line."""
    return np.asarray(np.log(shares / (1 - shares)) / 1.702)


def _within(distance: Array, reach: float) -> Array:
    """1 up to `reach`, 0 one pixel further: a smooth edge."""
    return np.clip(reach + 0.5 - distance, 0.0, 1.0)
