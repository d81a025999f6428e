"""The line around the smallest area that holds a given share of the positive relevance."""

from __future__ import annotations

import math

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


def draw_line(picture: Array, area: Array, width: float) -> Array:
    """`picture` (H, W, 3) with a cased line around `area`; edges of the picture itself get none."""
    if not area.any():
        return picture
    # A blurred step is the normal distribution of the distance to the step: its quantiles are lines at given distances.
    margin = int(np.ceil(4 * width))
    padded = np.pad(area, margin, mode="edge")
    mask = Image.fromarray(np.where(padded, 255, 0).astype(np.uint8))
    soft = np.asarray(mask.filter(ImageFilter.GaussianBlur(width)))[margin:-margin, margin:-margin]
    near = (soft > 0) & (soft < 255)
    distance = np.abs(_quantile(soft[near] / 255)) * width
    drawn = picture.copy()
    cased = _mix(picture[near], DARK, 0.75 * _within(distance, CASING * width / 2))
    drawn[near] = _mix(cased, LINE, _within(distance, width / 2))
    return drawn


def _quantile(shares: Array) -> Array:
    """Quantiles of the normal distribution, by the logistic one, which is close enough for a line."""
    return np.asarray(np.log(shares / (1 - shares)) / 1.702)


def _within(distance: Array, reach: float) -> Array:
    """1 up to `reach`, 0 one pixel further: a smooth edge."""
    return np.clip(reach + 0.5 - distance, 0.0, 1.0)


def _mix(pixels: Array, colour: tuple[int, int, int], cover: Array) -> Array:
    """Pixels (n, 3) with a colour over them, each by its cover (n,)."""
    return np.asarray(pixels + cover[:, None] * (np.array(colour) - pixels))
