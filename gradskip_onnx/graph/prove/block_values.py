"""The values that the proofs of blocks read, for a few blocks at a time: a file is read in the memory of one block.

The graph is cut at the block inputs, whose values are known, so the tensors of some blocks take a run of these alone.
Of a large attention some rows are read, chosen evenly; each row holds all keys of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod

import numpy as np

from gradskip_onnx.types import Array

TOGETHER = 64 << 20  # bytes of the values of blocks that are looked at together, if they are more than one
MOST_ENTRIES = 1 << 22  # of an attention that is looked at whole
SOME_ENTRIES = 1 << 20  # of a larger one, about so many are, in whole rows
LEAST_ROWS = 32


def sample_rows(shape: Sequence[int], include: Iterable[int] = ()) -> Array | None:
    """Numbers of the rows (second last axis) to look at, among them `include`; None: all of a small tensor.

    Rows of window attention are few in each of many windows, and all are looked at.
    """
    queries = shape[-2]
    if prod(shape) <= MOST_ENTRIES or prod(shape[:-3]) > 1:
        return None
    count = min(queries, max(LEAST_ROWS, SOME_ENTRIES * queries // prod(shape)))
    return np.union1d(np.linspace(0, queries - 1, count).astype(np.int64), np.fromiter(include, np.int64))


def in_groups(count: int, bytes_of: Callable[[int], int]) -> Iterator[range]:
    """Runs of block numbers whose values together take at most TOGETHER bytes, or one block each."""
    start, held = 0, 0
    for number in range(count):
        size = bytes_of(number)
        if number > start and held + size > TOGETHER:
            yield range(start, number)
            start, held = number, 0
        held += size
    if count > start:
        yield range(start, count)
