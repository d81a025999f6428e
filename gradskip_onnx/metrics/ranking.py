"""Ranks pixels or whole patches by relevance, with a rule for ties."""

from __future__ import annotations

import numpy as np

from gradskip_onnx.types import Array

from .patches import of_each_pixel, patch_means, patch_pixels
from .substrates import TIES


def ranks(values: Array, seed: int, *, last_first: bool = False) -> Array:
    """The rank of each value, 0 for the largest; the seed alone decides the order of equal values.

    With `last_first` the later of two equal values comes first, as in an ascending stable sort read backwards.
    """
    count = values.size
    shuffled = np.random.default_rng((seed, TIES)).permutation(count)
    ties = np.arange(count)[::-1] if last_first else shuffled
    order = np.lexsort((ties, -values.reshape(-1).astype(np.float64)))
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count)
    return rank.reshape(values.shape)


def patch_ranks(values: Array, side: int, seed: int, *, last_first: bool = False) -> Array:
    """For each pixel the number of pixels in patches of a larger mean, (H, W): patches of `side` pixels move as one.

    Ties between patches are settled as in `ranks`.
    """
    rank = ranks(patch_means(values, side), seed, last_first=last_first)
    pixels, order = patch_pixels(values.shape, side).reshape(-1), np.argsort(rank, axis=None)
    before = np.empty_like(pixels)
    before[order] = np.cumsum(pixels[order]) - pixels[order]
    return of_each_pixel(before.reshape(rank.shape), values.shape, side)
