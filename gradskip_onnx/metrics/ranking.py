"""Pixels in order of relevance, ties included."""

from __future__ import annotations

import numpy as np

from gradskip_onnx.types import Array

from .substrates import TIES


def ranks(values: Array, seed: int, *, last_first: bool = False) -> Array:
    """The place of each value, 0 for the largest; equal ones stand in an order that only the seed decides.

    `last_first` puts the later of two equal values first instead: an ascending stable sort, read backwards.
    """
    count = values.size
    shuffled = np.random.default_rng((seed, TIES)).permutation(count)
    ties = np.arange(count)[::-1] if last_first else shuffled
    order = np.lexsort((ties, -values.reshape(-1).astype(np.float64)))
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count)
    return rank.reshape(values.shape)
