"""Products of a row over all tokens of a block, special ones included, with a matrix made from its attention.

No N x N matrix is written out. Attention to reduced keys stays (queries, keys), window attention stays one small matrix
per window; the value of a key is divided equally among its tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.methods.gradskip.gini import chunks
from gradskip_onnx.methods.windows import window_spread
from gradskip_onnx.types import Array, Block, Trace

Fuse = Callable[..., Array]  # arrays (heads, queries, keys) -> (queries, keys)
# Tokens of some queries, the rows (heads, queries, keys) of each array, and the map of keys (keys,) to tokens (N,).
Part = tuple[Array, list[Array], Callable[[Array], Array]]

FUSIONS: Mapping[str, Fuse] = {
    "mean": lambda A: A.mean(axis=0),
    "max": lambda A: A.max(axis=0),
    "min": lambda A: A.min(axis=0),
}


@dataclass(frozen=True, slots=True, eq=False)
class BlockAttention:
    """Attention of one block in one trace; it, its gradients and relevance are as in Trace, special tokens included."""

    trace: Trace
    block: Block

    @property
    def count(self) -> int:
        """N, the number of tokens."""
        return self.block.grid.patches + len(self.block.special)

    @property
    def attention(self) -> Array:
        return self.trace.values[self.block.attention]

    @property
    def gradient(self) -> Array:
        """Gradient of the explained score at the attention."""
        return self.trace.gradients[self.block.attention]

    @property
    def readout(self) -> Array:
        """Gradient at the attention of the score that the model's head gives to the tokens of this block."""
        return self.trace.readouts[self.block.attention]

    @property
    def relevance(self) -> Array:
        """Relevance of the attention, by the rule set in `Needs.attention_relevance`."""
        return self.trace.relevances[self.block.attention]

    def carry(self, row: Array, fuse: Fuse, *arrays: Array) -> Array:
        """row @ M, (N,), with M = fuse(*arrays); the arrays have the axes of the attention."""
        found = np.zeros(self.count)
        for queries, rows, from_keys in self._parts(arrays):
            found += from_keys(row[queries] @ fuse(*rows))
        return found

    def sums(self, fuse: Fuse, *arrays: Array) -> Array:
        """The row sums of M = fuse(*arrays), (N,)."""
        found = np.zeros(self.count)
        for queries, rows, _ in self._parts(arrays):
            found[queries] = fuse(*rows).sum(axis=1)
        return found

    def patches(self, row: Array) -> Array:
        """The entries of `row` at the patches, (n,)."""
        return np.delete(row, self.block.special)

    def _parts(self, arrays: tuple[Array, ...]) -> Iterator[Part]:
        for array in arrays:
            self._check(array)
        yield from (self._inside_windows if self.block.windows else self._everywhere)(arrays)

    def _everywhere(self, arrays: tuple[Array, ...]) -> Iterator[Part]:
        heads, queries, keys = arrays[0].shape
        back = partial(window_spread, grid=self.block.grid, side=self.block.reduction)
        for rows in chunks(queries, heads * keys):
            yield np.arange(rows.start, rows.stop), [array[:, rows].astype(np.float64) for array in arrays], back

    def _inside_windows(self, arrays: tuple[Array, ...]) -> Iterator[Part]:
        for window, tokens in enumerate(np.array(self.block.windows)):
            kept = np.flatnonzero(tokens >= 0)
            if len(kept):
                rows = [array[:, window][:, kept][:, :, kept].astype(np.float64) for array in arrays]
                yield tokens[kept], rows, partial(_placed, tokens[kept], self.count)

    def _check(self, array: Array) -> None:
        side = self.block.reduction
        keys = self.count if side == 1 else self.block.grid.reduced(side).patches
        expected: tuple[int, ...] = (self.block.heads, self.count, keys)
        if self.block.windows:
            size = len(self.block.windows[0])
            expected = (self.block.heads, len(self.block.windows), size, size)
        where = f"block {self.block.index}: attention {self.block.attention!r}"
        if array.shape != expected:
            what = f"{where} is {array.shape}, expected {expected}"
            raise UnsupportedModelError("grid-mismatch", f"{what}; check the model with `inspect`")
        if not np.isfinite([array.min(), array.max()]).all():
            raise UnsupportedModelError("not-finite", f"{where} or its gradient holds NaN or infinity")


def _placed(tokens: Array, count: int, received: Array) -> Array:
    return np.bincount(tokens, received, count)
