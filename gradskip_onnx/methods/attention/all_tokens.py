"""The attention of one block over all of its tokens, special ones included: a row over the tokens times a matrix.

No N x N matrix is written out. Attention to reduced keys stays (queries, keys), attention in windows stays one small
matrix a window; what arrives at a key is divided among the tokens it stands for.
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
Part = tuple[Array, list[Array], Callable[[Array], Array]]  # queries, their rows of each array, from keys to tokens

FUSIONS: Mapping[str, Fuse] = {
    "mean": lambda A: A.mean(axis=0),
    "max": lambda A: A.max(axis=0),
    "min": lambda A: A.min(axis=0),
}


@dataclass(frozen=True, slots=True, eq=False)
class BlockAttention:
    """One block of one trace."""

    trace: Trace
    block: Block

    @property
    def count(self) -> int:
        """N."""
        return self.block.grid.patches + len(self.block.special)

    @property
    def attention(self) -> Array:
        return self.trace.values[self.block.attention]

    @property
    def gradient(self) -> Array:
        """Of the score explained, at the attention."""
        return self.trace.gradients[self.block.attention]

    @property
    def readout(self) -> Array:
        """Of the score that the head gives the tokens of this block, at the attention."""
        return self.trace.readouts[self.block.attention]

    @property
    def relevance(self) -> Array:
        """Of the attention, by the rules that the method asked for."""
        return self.trace.relevances[self.block.attention]

    def carried(self, row: Array, fuse: Fuse, *arrays: Array) -> Array:
        """row M, (N,): M is what `fuse` makes of the arrays, each laid out as the attention is."""
        found = np.zeros(self.count)
        for queries, rows, from_keys in self._parts(arrays):
            found += from_keys(row[queries] @ fuse(*rows))
        return found

    def sums(self, fuse: Fuse, *arrays: Array) -> Array:
        """The row sums of M, (N,)."""
        found = np.zeros(self.count)
        for queries, rows, _ in self._parts(arrays):
            found[queries] = fuse(*rows).sum(axis=1)
        return found

    def patches(self, row: Array) -> Array:
        """The entries of the patches, (n,)."""
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
