"""Values, gradients and attention of one block at its patches; special tokens are dropped here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.types import Array, Block, Trace

from .windows import window_mean, window_spread

Transfer = Callable[[Array], Array]


@dataclass(frozen=True, slots=True, eq=False)
class AttentionGroup:
    """Queries that attend to the same keys: all patches at once, or the patches of one window."""

    attention: Array  # (heads, queries, keys) in the model's own precision
    queries: Array  # (queries,) the patch of each query
    at_keys: Transfer  # values of patches (n,) -> of keys (keys,): the mean over the patches of a key
    from_keys: Transfer  # values of keys (keys,) -> of patches (n,): divided equally among the patches of a key


@dataclass(frozen=True, slots=True, eq=False)
class Patches:
    """One block of one trace; the argument `tensor` is a field of Block: tokens_in, tokens_out, branch or normed."""

    trace: Trace
    block: Block
    cache: dict[str, Array] = field(default_factory=dict)  # arrays that were checked and cut, by name

    def shown(self, tensor: str) -> bool:
        """Whether the trace holds the gradient of this tensor."""
        return getattr(self.block, tensor) in self.trace.gradients

    def value(self, tensor: str) -> Array:
        """The tensor at the patches, (n, d) float64."""
        return self.tokens(tensor).astype(np.float64)

    def gradient(self, tensor: str) -> Array:
        """The gradient of the explained score at the patches, (n, d) float64."""
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
        """Number of values in the attention of the block, as its fields say; nothing is looked up."""
        block, tokens = self.block, self.block.grid.patches + len(self.block.special)
        if block.windows:
            return block.heads * len(block.windows) * len(block.windows[0]) ** 2
        keys = tokens if block.reduction == 1 else block.grid.reduced(block.reduction).patches
        return block.heads * tokens * keys

    def attention_groups(self) -> list[AttentionGroup]:
        """The attention of the block without special tokens and padding; raises if it is negative or not finite."""
        name = self.block.attention
        attention = self.trace.values[name]
        if not _plainly_sound(attention):
            low, high = float(attention.min()), float(attention.max())  # NaN propagates through both
            if not np.isfinite([low, high]).all():
                raise self._unsupported("not-finite", f"attention {name!r} holds NaN or infinity")
            if low < 0:
                raise self._unsupported("negative-attention", f"attention {name!r} has values down to {low:.3g}")
        return self._windows(attention) if self.block.windows else [self._everywhere(attention)]

    def _everywhere(self, attention: Array) -> AttentionGroup:
        """Every patch attends to every key; with key reduction a key is a square of `side` x `side` patches."""
        grid, side = self.block.grid, self.block.reduction
        attention = _drop(attention, self.block.special, axis=1)
        if side == 1:
            attention = _drop(attention, self.block.special, axis=2)
        self._expect(attention, (self.block.heads, grid.patches, grid.reduced(side).patches))
        return AttentionGroup(
            attention,
            np.arange(grid.patches),
            lambda values: window_mean(values, grid, side),
            lambda received: window_spread(received, grid, side),
        )

    def _windows(self, attention: Array) -> list[AttentionGroup]:
        """One group per window, of attention (heads, windows, queries, keys)."""
        count = self.block.grid.patches
        # token -> patch, -1 for a special token; the last entry is that of padding, which is token -1
        patch_of = np.full(count + len(self.block.special) + 1, -1)
        patch_of[np.delete(np.arange(len(patch_of) - 1), self.block.special)] = np.arange(count)
        members = patch_of[np.array(self.block.windows)]  # (windows, queries)
        self._expect(attention, (self.block.heads, len(members), members.shape[1], members.shape[1]))
        groups = []
        for window, patches in enumerate(members):
            kept = np.flatnonzero(patches >= 0)
            inside = patches[kept]
            groups.append(
                AttentionGroup(
                    attention[:, window][:, kept][:, :, kept],
                    inside,
                    partial(_gather, inside),
                    partial(_scatter, inside, count),
                )
            )
        return [group for group in groups if len(group.queries)]

    def _expect(self, attention: Array, shape: tuple[int, ...]) -> None:
        if attention.shape != shape:
            what = f"attention {self.block.attention!r} is {attention.shape}, expected {shape}"
            raise self._unsupported("grid-mismatch", what)

    def abs_product(self, tensor: str) -> Array:
        """sum_k |G_ik T_ik| of each patch, (n,) float64."""
        name = f"product of {tensor}"
        if name not in self.cache:
            self.cache[name] = overlaps(self.raw_gradient(tensor), self.tokens(tensor))
        return self.cache[name]

    def _patches(self, array: Array, name: str) -> Array:
        if name not in self.cache:
            self.cache[name] = self._cut(array, name)
        return self.cache[name]

    def _cut(self, array: Array, name: str) -> Array:
        """The rows of the patches (n, d) of tokens (N, d); raises if their number is wrong or a value not finite."""
        tokens = _drop(array, self.block.special, axis=0)
        count = self.block.grid.patches
        if tokens.ndim != 2 or len(tokens) != count:
            raise self._unsupported("grid-mismatch", f"{name!r} is {tokens.shape}, expected {count} patches")
        if not np.isfinite([tokens.min(), tokens.max()]).all():  # NaN propagates through both
            raise self._unsupported("not-finite", f"{name!r} holds NaN or infinity")
        return tokens

    def _unsupported(self, code: str, what: str) -> UnsupportedModelError:
        return UnsupportedModelError(code, f"block {self.block.index}: {what}; check the model with `inspect`")


def _gather(patches: Array, values: Array) -> Array:
    return np.asarray(values[patches])


def _scatter(patches: Array, count: int, received: Array) -> Array:
    return np.bincount(patches, received, count)


def _drop(array: Array, special: tuple[int, ...], axis: int) -> Array:
    """`array` without the special tokens; a view, not a copy, if they are all at one end of the axis."""
    size, count = array.shape[axis], len(special)
    for start in (0, size - count):
        if special == tuple(range(start, start + count)):
            kept = slice(0, start) if start else slice(count, size)
            return array[(slice(None),) * axis + (kept,)]
    return np.delete(array, special, axis=axis)


def _plainly_sound(attention: Array) -> bool:
    """Whether no value is infinite, NaN or has a minus sign: one pass over the bits, read as integers without sign."""
    bits = f"u{attention.itemsize}"
    return bool(attention.view(bits).max() < np.array(np.inf, attention.dtype).view(bits))


def norms(x: Array) -> Array:
    """|x_i| of each row, (n,) float64."""
    return np.asarray(np.sqrt(np.einsum("nd,nd->n", x, x, dtype=np.float64)))


def products(x: Array, y: Array) -> Array:
    """sum_k x_ik y_ik of each row, (n,), in single precision or that of x and y, if it is higher."""
    return np.asarray(np.einsum("nd,nd->n", x, y, dtype=np.result_type(x, y, np.float32)))


def overlaps(x: Array, y: Array) -> Array:
    """sum_k |x_ik y_ik| of each row, (n,) float64."""
    return np.asarray(np.einsum("nd,nd->n", np.abs(x), np.abs(y), dtype=np.float64))
