"""Palettes: paths through OKLab whose lightness rises evenly, so that brighter is more for every eye.

Own code: two matrices instead of 256 copied rows a palette, and no published set has both signs in one family.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from gradskip_onnx.types import Array

STEPS = 256

Anchors = tuple[tuple[float, float, float, float], ...]  # (position, lightness, chroma, hue in degrees)

# Positive relevance, from the weakest to the strongest.
POSITIVE: Mapping[str, Anchors] = MappingProxyType(
    {
        # violet, red, orange, pale yellow
        "heat": ((0.0, 0.25, 0.1, 295.0), (0.35, 0.48, 0.19, 345.0), (0.7, 0.73, 0.18, 405.0), (1.0, 0.97, 0.1, 467.0)),
        # dark red, orange, pale yellow: fewer hues
        "fire": ((0.0, 0.25, 0.09, 20.0), (0.4, 0.5, 0.19, 32.0), (0.75, 0.76, 0.17, 65.0), (1.0, 0.97, 0.09, 107.0)),
        # violet, blue, green, yellow: away from the colours of animals and earth
        "forest": ((0, 0.25, 0.09, 300.0), (0.4, 0.5, 0.09, 215.0), (0.75, 0.75, 0.16, 145.0), (1, 0.96, 0.15, 110.0)),
        # for print without colours
        "white": ((0.0, 0.25, 0.0, 0.0), (1.0, 1.0, 0.0, 0.0)),
    }
)  # fmt: skip

# Two signs: warm speaks for the class, cold against it. Both arms are equally light at equal distance from zero; blue
# and orange differ for every kind of colour blindness.
WARM = ((0.0, 0.25, 0.07, 45.0), (0.4, 0.50, 0.16, 45.0), (0.75, 0.76, 0.17, 70.0), (1.0, 0.95, 0.12, 100.0))
COLD = ((0.0, 0.25, 0.07, 262.0), (0.4, 0.50, 0.16, 260.0), (0.75, 0.76, 0.12, 240.0), (1.0, 0.95, 0.06, 215.0))


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


def path(anchors: Anchors, steps: int = STEPS) -> Array:
    """A table (steps, 3) of bytes along straight lines between the anchors."""
    at = np.linspace(0.0, 1.0, steps)
    positions, *columns = (np.array(column) for column in zip(*anchors, strict=True))
    return _srgb(*(np.interp(at, positions, column) for column in columns))


PALETTES: Mapping[str, Array] = MappingProxyType({name: path(anchors) for name, anchors in POSITIVE.items()})
FOR, AGAINST = path(WARM), path(COLD)


def paint(strengths: Array, table: Array) -> Array:
    """The colours (..., 3) of strengths in 0..1."""
    painted: Array = table[np.clip(np.rint(strengths * (STEPS - 1)), 0, STEPS - 1).astype(np.intp)]
    return painted
