"""The patch rows of what a pass showed of one block; special tokens are dropped here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.types import Array, Block, Trace

from .windows import window_mean, window_spread

Move = Callable[[Array], Array]


@dataclass(frozen=True, slots=True, eq=False)
class AttentionGroup:
    """Queries that attend to the same keys: all patches at once, or the patches of one window."""

    attention: Array  # (heads, queries, keys) in the model's own precision
    queries: Array  # the patch each query stands for
    at_keys: Move  # (n,) values of patches -> (keys,)
    from_keys: Move  # (keys,) -> (n,), a key's value divided among the patches it stands for


@dataclass(frozen=True, slots=True, eq=False)
class Patches:
    """One block of one trace; `tensor` is the Block field that names it: tokens_in, tokens_out or branch."""

    trace: Trace
    block: Block
    seen: dict[str, Array] = field(default_factory=dict)  # checked and cut once, asked for often

    def shown(self, tensor: str) -> bool:
        """Whether the pass showed the gradient."""
        return getattr(self.block, tensor) in self.trace.gradients

    def value(self, tensor: str) -> Array:
        """(n, d) float64."""
        return self.tokens(tensor).astype(np.float64)

    def gradient(self, tensor: str) -> Array:
        """(n, d) float64, of the score explained."""
        return self.raw_gradient(tensor).astype(np.float64)

    def tokens(self, tensor: str) -> Array:
        """`value` in the model's own precision, not copied."""
        name = getattr(self.block, tensor)
        return self._patches(self.trace.values[name], name)

    def raw_gradient(self, tensor: str) -> Array:
        """`gradient` in the model's own precision, not copied."""
        name = getattr(self.block, tensor)
        return self._patches(self.trace.gradients[name], f"gradient of {name}")

    @property
    def attention_size(self) -> int:
        """How many values the attention of the block has."""
        return self.trace.values[self.block.attention].size

    def attention_groups(self) -> list[AttentionGroup]:
        """The attention of the block; special tokens and padding are left out."""
        name = self.block.attention
        seen = self.trace.values[name]
        low, high = float(seen.min()), float(seen.max())  # NaN propagates through both
        if not np.isfinite([low, high]).all():
            raise self._unsupported("not-finite", f"attention {name!r} holds NaN or infinity")
        if low < 0:
            raise self._unsupported("negative-attention", f"attention {name!r} has values down to {low:.3g}")
        return self._windows(seen) if self.block.windows else [self._everywhere(seen)]

    def _everywhere(self, seen: Array) -> AttentionGroup:
        """Every patch may attend to every key; under reduction a key is a square of patches."""
        grid, side = self.block.grid, self.block.reduction
        seen = _drop(seen, self.block.special, axis=1)
        if side == 1:
            seen = _drop(seen, self.block.special, axis=2)
        self._expect(seen, (self.block.heads, grid.patches, grid.reduced(side).patches))
        return AttentionGroup(
            seen,
            np.arange(grid.patches),
            lambda values: window_mean(values, grid, side),
            lambda received: window_spread(received, grid, side),
        )

    def _windows(self, seen: Array) -> list[AttentionGroup]:
        """Patches attend inside their window only; seen is (heads, windows, queries, keys)."""
        count = self.block.grid.patches
        number = np.full(count + len(self.block.special) + 1, -1)  # the last entry answers for padding
        number[np.delete(np.arange(len(number) - 1), self.block.special)] = np.arange(count)
        places = number[np.array(self.block.windows)]
        self._expect(seen, (self.block.heads, len(places), places.shape[1], places.shape[1]))
        found = []
        for window, tokens in enumerate(places):
            kept = np.flatnonzero(tokens >= 0)
            inside = tokens[kept]
            found.append(
                AttentionGroup(
                    seen[:, window][:, kept][:, :, kept],
                    inside,
                    partial(_taken, inside),
                    partial(_returned, inside, count),
                )
            )
        return [group for group in found if len(group.queries)]

    def _expect(self, seen: Array, shape: tuple[int, ...]) -> None:
        if seen.shape != shape:
            what = f"attention {self.block.attention!r} is {seen.shape}, expected {shape}"
            raise self._unsupported("grid-mismatch", what)

    def abs_product(self, tensor: str) -> Array:
        """sum_k |G_ik T_ik| of each patch, (n,) float64."""
        name = f"mass of {tensor}"
        if name not in self.seen:
            self.seen[name] = overlaps(self.raw_gradient(tensor), self.tokens(tensor))
        return self.seen[name]

    def _patches(self, array: Array, name: str) -> Array:
        if name not in self.seen:
            self.seen[name] = self._cut(array, name)
        return self.seen[name]

    def _cut(self, array: Array, name: str) -> Array:
        tokens = _drop(array, self.block.special, axis=0)
        count = self.block.grid.patches
        if tokens.ndim != 2 or len(tokens) != count:
            raise self._unsupported("grid-mismatch", f"{name!r} is {tokens.shape}, expected {count} patches")
        if not np.isfinite([tokens.min(), tokens.max()]).all():  # NaN propagates through both
            raise self._unsupported("not-finite", f"{name!r} holds NaN or infinity")
        return tokens

    def _unsupported(self, code: str, what: str) -> UnsupportedModelError:
        return UnsupportedModelError(code, f"block {self.block.index}: {what}; check the model with `inspect`")


def _taken(places: Array, values: Array) -> Array:
    return np.asarray(values[places])


def _returned(places: Array, count: int, received: Array) -> Array:
    return np.bincount(places, received, count)


def _drop(array: Array, special: tuple[int, ...], axis: int) -> Array:
    """Without the special tokens; a view where they stand together at one end."""
    size, count = array.shape[axis], len(special)
    for start in (0, size - count):
        if special == tuple(range(start, start + count)):
            kept = slice(0, start) if start else slice(count, size)
            return array[(slice(None),) * axis + (kept,)]
    return np.delete(array, special, axis=axis)


def norms(x: Array) -> Array:
    """|x_i| of each row, (n,) float64."""
    return np.asarray(np.sqrt(np.einsum("nd,nd->n", x, x, dtype=np.float64)))


def overlaps(x: Array, y: Array) -> Array:
    """sum_k |x_ik y_ik| of each row, (n,) float64."""
    return np.asarray(np.einsum("nd,nd->n", np.abs(x), np.abs(y), dtype=np.float64))
