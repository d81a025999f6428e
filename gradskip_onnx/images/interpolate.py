"""Resamples maps from one grid to another and normalises them to 0..1.

Along each axis, every one of the `new` samples is a weighted sum of a few of the `old` ones; a mode gives the indices
and weights. Pictures are resized by Pillow instead (preprocess, regions, drawing), as in the training of most models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gradskip_onnx.errors import InputError
from gradskip_onnx.types import Array, Size, read_only

Box = tuple[float, float, float, float]  # x0, y0, x1, y1


class Taps(NamedTuple):
    """For each new sample, the indices `places` (new, k) of old samples and their weights `shares` (new, k)."""

    places: Array
    shares: Array


def resize(scores: Array, size: Size, mode: str = "bilinear") -> Array:
    """Resample a map (rows, columns) to `size` (height, width), float32, axis by axis, without smoothing."""
    _check_map(scores)
    if len(size) != 2 or min(size) < 1:
        raise InputError(f"map size: got {size}, allowed: a height and a width of at least 1")
    if scores.shape == tuple(size) and mode in MODES:
        return scores.astype(np.float32)
    down, across = (taps_of(mode, new, old) for new, old in zip(size, scores.shape, strict=True))
    # rows first in float64, on the small array; the second sum, at image size, is exact enough in float32
    rows = _weighted_sum(scores, down, np.float64).astype(np.float32)
    return np.ascontiguousarray(_weighted_sum(rows.T, across, np.float32).T)


def place(values: Array, size: Size, box: Box) -> Array:
    """An array of `size` (height, width), float32, with the map stretched over `box` and zero outside.

    Shrinking averages, with the weights of Pillow's BILINEAR filter.
    """
    _check_map(values)
    x0, y0, x1, y1 = box
    if (x0, y0, x1, y1) == (0, 0, *size[::-1]) and values.shape == size:
        return values.astype(np.float32)
    rows = _weighted_sum(values.astype(np.float32), _triangle(values.shape[0], size[0], y0, y1), np.float32)
    placed = _weighted_sum(rows.T, _triangle(values.shape[1], size[1], x0, x1), np.float32).T
    return np.ascontiguousarray(placed + np.float32(0))  # turns -0.0, a negative value times weight 0, into 0.0


def enlarge(values: Array, size: Size, dtype: Any = np.float64) -> Array:
    """A map (rows, columns) at a larger `size` (height, width), linear between the centres of its entries."""
    down, across = (taps_of("bilinear", new, old) for new, old in zip(size, values.shape, strict=True))
    columns = np.ascontiguousarray(_weighted_sum(values.T, across, np.float64).T.astype(dtype))
    return _weighted_sum(columns, down, dtype)  # whole rows are summed: quicker than columns


@lru_cache(32)
def matrices(size: Size, grid: Size, mode: str = "bilinear") -> tuple[Array, Array]:
    """Matrices (height, rows) and (width, columns), float64: `down @ map @ across.T` enlarges one map or a stack."""
    down, across = (read_only(_matrix(taps_of(mode, new, old), old)) for new, old in zip(size, grid, strict=True))
    return down, across


def nearest(new: int, start: float, stop: float) -> Array:
    """(new,) index of the old sample under the centre of each new one, the new ones dividing start..stop evenly."""
    return np.floor(start + (np.arange(new) + 0.5) * (stop - start) / new).astype(int)


def normalise(values: Array) -> Array:
    """Scale the minimum to 0 and the maximum to 1, float32; a constant map becomes zeros."""
    low, high = float(values.min()), float(values.max())
    if not np.isfinite([low, high]).all():
        raise InputError("a map with NaN or infinite values cannot be normalised")
    if low == high:
        return np.zeros(values.shape, dtype=np.float32)
    # halved first: the difference of the largest floats would overflow
    span = high / 2 - low / 2
    return np.asarray(((values.astype(np.float64) / 2 - low / 2) / span).astype(np.float32))


def _check_map(values: Array) -> None:
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"a map has rows and columns, got an array of shape {values.shape}")


def _bilinear(new: int, old: int) -> Taps:
    """Linear between sample centres i + 1/2; beyond the outer centres the edge value continues."""
    return _around(np.clip(_centres(new, old), 0, old - 1), old)


def _mirrored(new: int, old: int) -> Taps:
    """Bilinear, but samples are mirrored at the outer centres instead of continued."""
    reflected = (old - 1) - np.abs((old - 1) - np.abs(_centres(new, old)))
    return _around(np.clip(reflected, 0, old - 1), old)


def _corners(new: int, old: int) -> Taps:
    """Linear, with the first and last old samples at the first and last new ones (align corners)."""
    at = np.arange(new) * ((old - 1) / max(new - 1, 1))
    return _around(at, old, last=max(old - 2, 0))


def _nearest(new: int, old: int) -> Taps:
    """The old sample whose cell contains the centre of each new one."""
    return Taps(nearest(new, 0, old)[:, None], np.ones((new, 1)))


MODES: Mapping[str, Callable[[int, int], Taps]] = {
    "bilinear": _bilinear,
    "nearest": _nearest,
    "mirrored": _mirrored,
    "corners": _corners,
}


@lru_cache(64)  # images of one size share them
def taps_of(mode: str, new: int, old: int) -> Taps:
    """Along one axis, the old samples that each new one is made of in a mode: bilinear, nearest, ..."""
    if mode not in MODES:
        raise InputError(f"resampling mode: got {mode!r}, allowed: {', '.join(MODES)}")
    return Taps(*map(read_only, MODES[mode](new, old)))


def _centres(new: int, old: int) -> Array:
    return (np.arange(new) + 0.5) * old / new - 0.5


def _around(at: Array, old: int, last: int | None = None) -> Taps:
    """Linear weights of the two samples around each position; `last` is the largest index of the lower one."""
    below = np.floor(at).astype(int)
    if last is not None:
        below = np.minimum(below, last)
    share = at - below
    return Taps(np.stack([below, np.minimum(below + 1, old - 1)], axis=1), np.stack([1 - share, share], axis=1))


@lru_cache(32)  # images of one size share them
def _triangle(old: int, total: int, start: float, stop: float) -> Taps:
    """Linear interpolation of `old` cells that span start..stop of `total` pixels; weights outside are zero.

    The half-width of the triangle is a cell or a pixel, whichever is larger, so that shrinking averages.
    """
    centre = np.arange(total) + 0.5
    at = (centre - start) * (old / (stop - start)) - 0.5
    width = max(1.0, old / (stop - start))
    places = np.floor(at - width).astype(int)[:, None] + np.arange(1, int(np.ceil(2 * width)) + 1)
    weights = np.clip(1.0 - np.abs(at[:, None] - places) / width, 0.0, None)
    weights[(places < 0) | (places >= old)] = 0.0
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    weights[(centre < start) | (centre > stop)] = 0.0
    return Taps(read_only(np.clip(places, 0, old - 1)), read_only(weights.astype(np.float32)))


def _weighted_sum(values: Array, taps: Taps, dtype: Any) -> Array:
    """Weighted sums along the first axis: (old, ...) -> (new, ...).

    Not a matrix product: the threads of BLAS keep spinning after one and take the cores from the next pass.
    """
    shares = taps.shares.astype(dtype).T[..., None]  # (k, new, 1)
    total = np.take(values, taps.places[:, 0], axis=0).astype(dtype, copy=False)
    total *= shares[0]
    part = np.empty_like(total)
    for places, share in zip(taps.places.T[1:], shares[1:], strict=True):
        np.multiply(np.take(values, places, axis=0), share, out=part)
        total += part
    return total


def _matrix(taps: Taps, old: int) -> Array:
    """The taps as a dense matrix (new, old) of weights."""
    matrix = np.zeros((len(taps.places), old))
    np.add.at(matrix, (np.arange(len(matrix))[:, None], taps.places), taps.shares)
    return matrix
