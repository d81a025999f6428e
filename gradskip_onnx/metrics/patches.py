"""The squares of an image that metrics change as a whole: mean relevance and number of pixels of each."""

from __future__ import annotations

import numpy as np

from gradskip_onnx.types import Array


def patch_means(values: Array, side: int) -> Array:
    """Mean of a map (H, W) over each patch, (rows, columns); patches at the right and lower edge may be smaller."""
    rows, columns = (np.arange(0, length, side) for length in values.shape)
    sums = np.add.reduceat(np.add.reduceat(values.astype(np.float64), rows, axis=0), columns, axis=1)
    return np.asarray(sums / patch_pixels(values.shape, side))


def patch_pixels(size: tuple[int, ...], side: int) -> Array:
    """Number of pixels of each patch, (rows, columns)."""
    heights, widths = (np.diff([*range(0, length, side), length]) for length in size)
    return np.outer(heights, widths)


def of_each_pixel(of_patches: Array, size: tuple[int, ...], side: int) -> Array:
    """The value of the patch that each pixel lies in, (H, W)."""
    rows, columns = (np.arange(length) // side for length in size)
    return np.asarray(of_patches[np.ix_(rows, columns)])
