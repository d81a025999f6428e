"""Token grid -> float32 map of a given size, and its min-max normalisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradskip_onnx.errors import InputError
from gradskip_onnx.types import Array

Taps = tuple[Array, Array, Array]  # for each new sample: two old ones, and the share of the second


def resize(scores: Array, size: tuple[int, int], mode: str = "bilinear") -> Array:
    """(rows, columns) -> (height, width) float32: two samples mixed, axis by axis.

    Both modes place sample i of an axis at its centre, i + 1/2; corners are not aligned and nothing is smoothed.
    """
    if mode not in MODES:
        raise InputError(f"resampling mode: got {mode!r}, allowed: {', '.join(MODES)}")
    if scores.ndim != 2 or 0 in scores.shape:
        raise InputError(f"a map has rows and columns, got an array of shape {scores.shape}")
    if len(size) != 2 or min(size) < 1:
        raise InputError(f"map size: got {size}, allowed: a height and a width of at least 1")
    down, across = (MODES[mode](new, old) for new, old in zip(size, scores.shape, strict=True))
    # the sum of two terms is as exact in float32 as its result; only the second is as large as the image
    rows = _mixed(scores, down, np.float64).astype(np.float32)
    return np.ascontiguousarray(_mixed(rows.T, across, np.float32).T)


def _mixed(values: Array, taps: Taps, dtype: Any) -> Array:
    """Along the first axis: (1 - share) of the sample before each new centre and `share` of the one after it."""
    before, after, share = taps
    weights = share.astype(dtype)[:, None]
    return np.asarray(values[before] * (1 - share).astype(dtype)[:, None] + values[after] * weights)


def normalise(values: Array) -> Array:
    """Minimum to 0, maximum to 1, as float32; a constant map becomes zeros."""
    low, high = float(values.min()), float(values.max())
    if not np.isfinite([low, high]).all():
        raise InputError("a map with NaN or infinite values cannot be normalised")
    if low == high:
        return np.zeros(values.shape, dtype=np.float32)
    # halved first, so that the span of the largest floats is finite
    span = high / 2 - low / 2
    return np.asarray(((values.astype(np.float64) / 2 - low / 2) / span).astype(np.float32))


def _bilinear(new: int, old: int) -> Taps:
    """The two samples around each new centre; beyond the outer centres the edge holds."""
    centre = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
    below = np.floor(centre).astype(int)
    return below, np.minimum(below + 1, old - 1), centre - below


def _nearest(new: int, old: int) -> Taps:
    """The sample whose cell holds each new centre, in whole numbers so that no tie is lost to rounding."""
    place = (2 * np.arange(new) + 1) * old // (2 * new)
    return place, place, np.zeros(new)


MODES: Mapping[str, Callable[[int, int], Taps]] = {"bilinear": _bilinear, "nearest": _nearest}
