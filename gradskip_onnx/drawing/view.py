"""A map as the eye gets it: at the size of the panel, smoothed, and scaled to strengths from none to the strongest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradskip_onnx.images.interpolate import Box, place
from gradskip_onnx.types import Array

from .heat_map import HeatMap
from .outline import smallest_area
from .smoothing import smooth
from .style import PictureStyle

# Share of all relevance: negative above it is drawn; positive below it, beside drawn negative, gets no line.
MATTERS = 0.1
NONE_BELOW = 0.04  # share of the top below which nothing is drawn
SPIKES = 0.005  # share of the pixels that may exceed the range of the colours
SPIKY = 1.5  # strongest / range from which the range is clipped: else a few strong pixels make the whole map pale
NEARLY_EVEN = 0.5  # weakest / strongest above which a map is called nearly even

Slices = tuple[slice, slice]


@dataclass(frozen=True, slots=True, eq=False)
class MapView:
    """What is drawn of a map on a panel of (H, W) pixels."""

    values: Array  # (H, W) float32, smoothed; zero outside `seen`
    seen: Slices  # rows and columns of the panel that the model saw
    area: Array  # (H, W) True inside the line
    low: float  # the value drawn as none
    top: float  # the value drawn as the strongest
    signed: bool  # whether negative values are drawn
    clipped: bool  # whether a few values lie above `top`
    fine: bool  # whether the smoothing is measured in shares of the seen part and not in patches

    @property
    def whole(self) -> bool:
        """Whether the model saw the whole image."""
        return bool(self.values[self.seen].shape == self.values.shape)

    @property
    def empty(self) -> bool:
        """Whether nothing is drawn: no relevance, or the same everywhere."""
        return not self.top > self.low

    @property
    def nearly_even(self) -> bool:
        """Whether the weakest value is not far below the strongest, so that colours exaggerate."""
        return self.low > NEARLY_EVEN * self.top > 0

    @property
    def area_share(self) -> float:
        """The outlined area as a share of what the model saw."""
        return float(self.area.sum() / self.values[self.seen].size)

    @property
    def strength(self) -> Array:
        """(H, W) from 0, none, to 1, the strongest; negative for relevance against the class, if signed."""
        if self.empty:
            return np.zeros_like(self.values)
        inside = np.zeros_like(self.values)
        strength = (self.values[self.seen] - self.low) / (self.top - self.low)
        inside[self.seen] = np.clip(strength, -1.0 if self.signed else 0.0, 1.0)
        return inside


def view_of(heat: HeatMap, size: tuple[int, int], style: PictureStyle) -> MapView:
    """The view of a map on a panel of `size` (width, height)."""
    width, height = size
    zoom = (height / heat.values.shape[0], width / heat.values.shape[1])
    box = None if heat.box is None else tuple(edge * zoom[1 - at % 2] for at, edge in enumerate(heat.box))
    seen = _slices(height, width, box)
    drawn = np.zeros((height, width), np.float32)
    down, across = heat.blur_unit
    sigma = (style.smoothing * down * zoom[0], style.smoothing * across * zoom[1])
    drawn[seen] = smooth(place(heat.values, (height, width), (0, 0, width, height))[seen], sigma)
    against = negative_share(heat)
    signed = against > MATTERS if style.signed is None else style.signed
    area = np.zeros((height, width), bool)
    if not signed or against < 1 - MATTERS:
        area[seen] = smallest_area(drawn[seen], style.outline)
    low, top, clipped = _range(drawn[seen], signed)
    return MapView(drawn, seen, area, low, top, signed, clipped, heat.fine)


def negative_matters(heat: HeatMap) -> bool:
    """Whether negative relevance is more than a tenth of all."""
    return negative_share(heat) > MATTERS


def negative_share(heat: HeatMap) -> float:
    """The share of negative relevance in the part that the model saw; 0 without any relevance."""
    height, width = heat.values.shape
    values = heat.values[_slices(height, width, heat.box)]
    negative = -float(np.minimum(values, 0).sum(dtype=np.float64))
    total = float(np.abs(values).sum(dtype=np.float64))
    return negative / total if total > 0 else 0.0


def _range(values: Array, signed: bool) -> tuple[float, float, bool]:
    """The values drawn as none and as the strongest, and whether some lie beyond."""
    low = max(0.0, float(values.min()))
    sizes = np.abs(values) if signed else np.maximum(values, low)
    reach, usual = float(sizes.max()), _quantile(sizes, 1 - SPIKES)
    clipped = reach - low > SPIKY * (usual - low) > 0
    return low, usual if clipped else reach, clipped


def _quantile(values: Array, share: float) -> float:
    """The linear quantile; that of NumPy loads masked arrays first, which a program that draws once waits for."""
    below, rest = divmod(share * (values.size - 1), 1)
    at = [int(below), min(int(below) + 1, values.size - 1)]
    low, high = np.partition(values, at, axis=None)[at]
    return float(low + rest * (high - low))


def _slices(height: int, width: int, box: tuple[float, ...] | Box | None) -> Slices:
    """Rows and columns of the pixels whose centres lie in the box, at least one of each; no box: all."""
    if box is None:
        return slice(0, height), slice(0, width)
    x0, y0, x1, y1 = (round(edge) for edge in box)
    y0, x0 = min(y0, height - 1), min(x0, width - 1)
    return slice(y0, max(y1, y0 + 1)), slice(x0, max(x1, x0 + 1))
