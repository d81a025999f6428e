"""Interpolation, written once: values on one grid at the places of another, and the min-max normalisation of a map.

An axis of `old` samples is read at `new` places; a mode says which samples each place takes and how much of each.
Pictures are resized by Pillow instead (preprocess, regions, drawing): models were trained on what Pillow makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from gradskip_onnx.errors import InputError
from gradskip_onnx.types import Array, Size

Box = tuple[float, float, float, float]  # x0, y0, x1, y1


class Taps(NamedTuple):
    """What each new sample is made of: old samples (new, k) and their shares (new, k)."""

    places: Array
    shares: Array


def resize(scores: Array, size: Size, mode: str = "bilinear") -> Array:
    """(rows, columns) -> (height, width) float32, axis by axis; nothing is smoothed."""
    _check_map(scores)
    if len(size) != 2 or min(size) < 1:
        raise InputError(f"map size: got {size}, allowed: a height and a width of at least 1")
    down, across = (_taps(mode, new, old) for new, old in zip(size, scores.shape, strict=True))
    # the sum of two terms is as exact in float32 as its result; only the second is as large as the image
    rows = _mixed(scores, down, np.float64).astype(np.float32)
    return np.ascontiguousarray(_mixed(rows.T, across, np.float32).T)


def place(values: Array, size: Size, box: Box) -> Array:
    """A map laid over the box of a larger area, at the pixels of the whole area, float32; zero outside the box.

    Where the map is shrunk its values are averaged, with the weights that Pillow calls BILINEAR.
    """
    _check_map(values)
    x0, y0, x1, y1 = box
    if (x0, y0, x1, y1) == (0, 0, *size[::-1]) and values.shape == size:
        return values.astype(np.float32)
    rows = _mixed(values.astype(np.float32), _triangle(values.shape[0], size[0], y0, y1), np.float32)
    placed = _mixed(rows.T, _triangle(values.shape[1], size[1], x0, x1), np.float32).T
    return np.ascontiguousarray(placed + np.float32(0))  # -0.0, a negative value with no share, becomes 0.0


def matrices(size: Size, grid: Size, mode: str = "bilinear") -> tuple[Array, Array]:
    """(height, rows) and (width, columns) float64: a map is enlarged as `down @ map @ across.T`, also many at once."""
    down, across = (_matrix(_taps(mode, new, old), old) for new, old in zip(size, grid, strict=True))
    return down, across


def nearest(new: int, start: float, stop: float) -> Array:
    """(new,): which old sample, of those in start..stop, lies under the centre of each new one."""
    return np.floor(start + (np.arange(new) + 0.5) * (stop - start) / new).astype(int)


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


def _check_map(values: Array) -> None:
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"a map has rows and columns, got an array of shape {values.shape}")


def _bilinear(new: int, old: int) -> Taps:
    """Sample i at its centre, i + 1/2; beyond the outer centres the edge holds."""
    return _around(np.clip(_centres(new, old), 0, old - 1), old)


def _mirrored(new: int, old: int) -> Taps:
    """As bilinear, but beyond the outer centres the samples are reflected about them."""
    reflected = (old - 1) - np.abs((old - 1) - np.abs(_centres(new, old)))
    return _around(np.clip(reflected, 0, old - 1), old)


def _corners(new: int, old: int) -> Taps:
    """Linear, the first and the last samples of both axes coinciding."""
    at = np.arange(new) * ((old - 1) / max(new - 1, 1))
    return _around(at, old, last=max(old - 2, 0))


def _nearest(new: int, old: int) -> Taps:
    """The sample whose cell holds each new centre."""
    return Taps(nearest(new, 0, old)[:, None], np.ones((new, 1)))


MODES: Mapping[str, Callable[[int, int], Taps]] = {
    "bilinear": _bilinear,
    "nearest": _nearest,
    "mirrored": _mirrored,
    "corners": _corners,
}


def _taps(mode: str, new: int, old: int) -> Taps:
    if mode not in MODES:
        raise InputError(f"resampling mode: got {mode!r}, allowed: {', '.join(MODES)}")
    return MODES[mode](new, old)


def _centres(new: int, old: int) -> Array:
    return (np.arange(new) + 0.5) * old / new - 0.5


def _around(at: Array, old: int, last: int | None = None) -> Taps:
    """The two samples around each place; `last` bounds the first of the two."""
    below = np.floor(at).astype(int)
    if last is not None:
        below = np.minimum(below, last)
    share = at - below
    return Taps(np.stack([below, np.minimum(below + 1, old - 1)], axis=1), np.stack([1 - share, share], axis=1))


def _triangle(old: int, total: int, start: float, stop: float) -> Taps:
    """Linear interpolation of `old` cells laid over start..stop of `total` pixels; no share outside.

    The triangle is as wide as a cell or as a pixel, whichever is wider, so that shrinking averages.
    """
    centre = np.arange(total) + 0.5
    at = (centre - start) * (old / (stop - start)) - 0.5
    width = max(1.0, old / (stop - start))
    weights = np.clip(1.0 - np.abs(at[:, None] - np.arange(old)) / width, 0.0, None)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    weights[(centre < start) | (centre > stop)] = 0.0
    weights = weights.astype(np.float32)
    places = np.argmax(weights > 0, axis=1)[:, None] + np.arange(int((weights > 0).sum(axis=1).max()))
    inside = np.minimum(places, old - 1)
    return Taps(inside, np.where(places < old, np.take_along_axis(weights, inside, axis=1), 0))


def _mixed(values: Array, taps: Taps, dtype: Any) -> Array:
    """Along the first axis: the sum of each new sample's old ones by their shares.

    Not as a product of matrices: BLAS's threads go on spinning after it and take the cores from the next pass.
    """
    shares = taps.shares.astype(dtype).T[..., None]  # (k, new, 1)
    total = values[taps.places[:, 0]] * shares[0]
    for places, share in zip(taps.places.T[1:], shares[1:], strict=True):
        total += values[places] * share
    return np.asarray(total)


def _matrix(taps: Taps, old: int) -> Array:
    """(new, old): the shares, each in the column of its sample."""
    matrix = np.zeros((len(taps.places), old))
    np.add.at(matrix, (np.arange(len(matrix))[:, None], taps.places), taps.shares)
    return matrix
