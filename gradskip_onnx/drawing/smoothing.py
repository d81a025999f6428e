"""A Gaussian blur by its spectrum: exact for any width.

The map is mirrored at its edges, so cosines are its waves, and the blur scales each of them. A wide blur leaves only
the few slowest, and costs next to nothing; the waves of a narrow one are found by the Fourier transform.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from gradskip_onnx.types import Array

FEW = 4  # samples a wave, from which two products with the waves are quicker than the transforms
# Multiplications in one product of BLAS: larger ones are shared out to threads, which then spin for a while and take
# the cores from the next pass of the model.
ONE_THREAD = 1 << 18


def smooth(values: Array, sigma: tuple[float, float]) -> Array:
    """`values` (H, W), floats, blurred by `sigma` pixels along rows and columns.

    The map is mirrored at its edges, so that nothing is lost there: the sum stays the same.
    """
    blurred = values
    for axis, width in enumerate(sigma):
        if width > 0:
            blurred = _along(blurred, width, axis)
    return blurred


def _along(values: Array, sigma: float, axis: int) -> Array:
    # the gain of a wave is exp(-2 (pi sigma f)^2); beyond `fastest` it is below the rounding of the values
    fastest = math.sqrt(-math.log(np.finfo(values.dtype).eps) / 2) / (math.pi * sigma)
    count = math.ceil(2 * values.shape[axis] * fastest) + 1
    if count * FEW > values.shape[axis]:
        return _transformed(values, sigma, axis)
    waves, scaled = (part.astype(values.dtype) for part in _waves(values.shape[axis], count, sigma))
    if axis == 0:
        return _product(waves, _product(scaled.T, values))
    return _product(_product(values, scaled), waves.T)


@lru_cache(16)  # images of one size share them
def _waves(size: int, count: int, sigma: float) -> tuple[Array, Array]:
    """The slowest `count` cosines (size, count), orthonormal, and the same scaled by their gains."""
    at = np.arange(count)
    waves = np.cos(np.pi / size * np.outer(np.arange(size) + 0.5, at)) * math.sqrt(2 / size)
    waves[:, 0] = math.sqrt(1 / size)
    return waves, waves * np.exp(-2 * (np.pi * sigma * at / (2 * size)) ** 2)


def _transformed(values: Array, sigma: float, axis: int) -> Array:
    size = values.shape[axis]
    mirrored = np.concatenate([values, np.flip(values, axis)], axis)
    # the transform of a Gaussian is a Gaussian
    gain = np.exp(-2 * (np.pi * sigma * np.fft.rfftfreq(2 * size)) ** 2)
    shaped = gain[:, None] if axis == 0 else gain
    blurred = np.fft.irfft(np.fft.rfft(mirrored, axis=axis) * shaped, 2 * size, axis)
    return np.take(blurred, np.arange(size), axis).astype(values.dtype)


def _product(a: Array, b: Array) -> Array:
    """`a @ b`, some rows at a time."""
    found = np.empty((len(a), b.shape[1]), a.dtype)
    step = max(1, ONE_THREAD // b.size)
    for start in range(0, len(a), step):
        np.matmul(a[start : start + step], b, out=found[start : start + step])
    return found
