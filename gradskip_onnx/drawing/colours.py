"""A sequential and a diverging colour map: paths through OKLab whose lightness is monotonic, also for the colour-blind.

Own code: two matrices instead of 512 copied rows, and no published pair has both maps in one family.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from gradskip_onnx.types import Array

STEPS = 256

# (position, lightness, chroma, hue in degrees): lightness rises evenly from violet through red to pale yellow.
HEAT = ((0.0, 0.22, 0.08, 290.0), (0.35, 0.46, 0.19, 345.0), (0.7, 0.72, 0.18, 405.0), (1.0, 0.96, 0.09, 465.0))

# Blue and orange differ for every kind of colour blindness; both arms have the same lightness at equal distance from 0.
COLD_ARM = ((0.0, 0.94, 0.005, 250.0), (0.5, 0.70, 0.12, 250.0), (1.0, 0.42, 0.13, 260.0))
WARM_ARM = ((0.0, 0.94, 0.005, 60.0), (0.5, 0.70, 0.15, 55.0), (1.0, 0.42, 0.13, 40.0))


def _srgb(lightness: Array, chroma: Array, hue: Array) -> Array:
    """OKLCh to sRGB bytes (n, 3), by the matrices that define OKLab (Ottosson 2020)."""
    a, b = chroma * np.cos(np.radians(hue)), chroma * np.sin(np.radians(hue))
    to_lms = np.array(
        [
            [1.0, 0.3963377774, 0.2158037573],
            [1.0, -0.1055613458, -0.0638541728],
            [1.0, -0.0894841775, -1.291485548],
        ]
    )
    to_rgb = np.array(
        [
            [4.0767416621, -3.3077115913, 0.2309699292],
            [-1.2684380046, 2.6097574011, -0.3413193965],
            [-0.0041960863, -0.7034186147, 1.707614701],
        ]
    )
    linear = np.clip((np.stack([lightness, a, b], axis=-1) @ to_lms.T) ** 3 @ to_rgb.T, 0.0, 1.0)
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.asarray(np.rint(encoded * 255), np.uint8)


def path(anchors: tuple[tuple[float, float, float, float], ...], steps: int) -> Array:
    """A table (steps, 3) of bytes along straight lines between the anchors."""
    at = np.linspace(0.0, 1.0, steps)
    positions, *columns = (np.array(column) for column in zip(*anchors, strict=True))
    return _srgb(*(np.interp(at, positions, column) for column in columns))


SEQUENTIAL = path(HEAT, STEPS)
PALETTES: Mapping[str, Array] = MappingProxyType({"heat": SEQUENTIAL})
DIVERGING = np.concatenate([path(COLD_ARM, STEPS // 2)[::-1], path(WARM_ARM, STEPS // 2)])


def paint(values: Array, table: Array) -> Array:
    """The colours (..., 3) of values in 0..1; for a diverging table 0.5 is zero."""
    painted: Array = table[np.clip(np.rint(values * (STEPS - 1)), 0, STEPS - 1).astype(np.intp)]
    return painted
