"""Ranks pixels by relevance, with a rule for ties."""

from __future__ import annotations

import numpy as np

from gradskip_onnx.types import Array

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
