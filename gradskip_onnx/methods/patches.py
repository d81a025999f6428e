"""The patch rows of what a pass showed of one block; special tokens are dropped here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import UnsupportedModelError
from ..types import Array, Block, Trace


@dataclass(frozen=True, slots=True, eq=False)
class Patches:
    """One block of one trace; `tensor` is the Block field that names it: tokens_in, tokens_out or branch."""

    trace: Trace
    block: Block

    def value(self, tensor: str) -> Array:
        """(n, d) float64."""
        name = getattr(self.block, tensor)
        return self._tokens(self.trace.values[name], name)

    def gradient(self, tensor: str) -> Array:
        """(n, d) float64, of the score explained."""
        name = getattr(self.block, tensor)
        return self._tokens(self.trace.gradients[name], f"gradient of {name}")

    def attention(self) -> Array:
        """(heads, n, keys) in the model's own precision; a key is a patch or, under reduction, a window of patches."""
        name, (rows, columns), side = self.block.attention, self.block.grid, self.block.reduction
        seen = _drop(self.trace.values[name], self.block.special, axis=1)
        if side == 1:
            seen = _drop(seen, self.block.special, axis=2)
        expected = (self.block.heads, rows * columns, (rows // side) * (columns // side))
        if seen.shape != expected:
            raise self._unsupported("grid-mismatch", f"attention {name!r} is {seen.shape}, expected {expected}")
        low, high = float(seen.min()), float(seen.max())  # NaN propagates through both
        if not np.isfinite([low, high]).all():
            raise self._unsupported("not-finite", f"attention {name!r} holds NaN or infinity")
        if low < 0:
            raise self._unsupported("negative-attention", f"attention {name!r} has values down to {low:.3g}")
        return seen

    def _tokens(self, array: Array, name: str) -> Array:
        tokens = _drop(array, self.block.special, axis=0).astype(np.float64)
        rows, columns = self.block.grid
        if tokens.ndim != 2 or len(tokens) != rows * columns:
            raise self._unsupported("grid-mismatch", f"{name!r} is {tokens.shape}, expected {rows * columns} patches")
        if not np.isfinite(tokens).all():
            raise self._unsupported("not-finite", f"{name!r} holds NaN or infinity")
        return tokens

    def _unsupported(self, code: str, what: str) -> UnsupportedModelError:
        return UnsupportedModelError(code, f"block {self.block.index}: {what}; check the model with `inspect`")


def _drop(array: Array, special: tuple[int, ...], axis: int) -> Array:
    return np.delete(array, special, axis=axis) if special else array
