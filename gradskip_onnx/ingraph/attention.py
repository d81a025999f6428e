"""The attention of a block inside the graph, and how values of tokens come to its queries and keys and back.

Attention to reduced keys stays (queries, keys), window attention stays a small matrix per window: no matrix of all
tokens by all tokens is made of either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gradskip_onnx.autodiff.emit import Emit
from gradskip_onnx.autodiff.sym import Sym
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.images.interpolate import Taps
from gradskip_onnx.types import Array, Block, Grid

from .grids import constant, matrix, separable
from .layouts import drop
from .traced import Traced


@dataclass(frozen=True, slots=True, eq=False)
class Attending:
    """Attention (B, heads, [windows,] queries, keys) over `count` tokens: all of a block, or its patches alone."""

    block: Block
    attention: Sym
    count: int
    members: Array | None = None  # (windows, queries) the token of each place in a window, -1 for none

    @property
    def present(self) -> Array | None:
        """(windows, queries) 1.0 where a place in a window has a token; None if all have."""
        if self.members is None or (self.members >= 0).all():
            return None
        return (self.members >= 0).astype(np.float64)

    def masked(self, mixed: Sym) -> Sym:
        """(B, [windows,] queries, keys) with zeros where a query or a key is no token."""
        present = self.present
        if present is None:
            return mixed
        return mixed * constant(mixed, present[:, :, None] * present[:, None, :])

    def at_queries(self, values: Sym) -> Sym:
        """(B, count) -> (B, [windows,] queries, 1); 0 where a query is no token."""
        return (values if self.members is None else self._into_windows(values)).unsqueeze(-1)

    def at_keys(self, values: Sym) -> Sym:
        """(B, count) -> (B, [windows,] keys, 1): the mean over the tokens of a key."""
        if self.members is not None:
            return self._into_windows(values).unsqueeze(-1)
        if self.block.reduction == 1:
            return values.unsqueeze(2)
        down, across = window_matrices(values.emit, self.block.grid, self.block.reduction)
        batch, grid = values.dims[0], self.block.grid
        means = separable(values.reshape((batch, *grid)), down.mT, across.mT) / self.block.reduction**2
        return means.reshape((batch, grid.reduced(self.block.reduction).patches, 1))

    def from_queries(self, values: Sym) -> Sym:
        """(B, [windows,] queries, 1) -> (B, count)."""
        return values.squeeze(-1) if self.members is None else self._from_windows(values.squeeze(-1))

    def from_keys(self, values: Sym) -> Sym:
        """(B, [windows,] keys, 1) -> (B, count): the value of a key divided equally among its tokens."""
        flat = values.squeeze(-1)
        if self.members is not None:
            return self._from_windows(flat)
        side, grid = self.block.reduction, self.block.grid
        if side == 1:
            return flat
        shares = flat.reshape((flat.dims[0], *grid.reduced(side))) / side**2
        return separable(shares, *window_matrices(flat.emit, grid, side)).reshape((flat.dims[0], self.count))

    def _into_windows(self, values: Sym) -> Sym:
        assert self.members is not None
        places = np.where(self.members < 0, self.count, self.members)  # the last entry is a zero that is appended
        padded = values.pad(1, 0, 1)
        dims = (values.dims[0], *self.members.shape)
        return values.emit.op("Gather", padded, values.emit.const(places, np.int64), dims=dims, axis=1)

    def _from_windows(self, values: Sym) -> Sym:
        assert self.members is not None
        flat = values.reshape((values.dims[0], self.members.size)).pad(1, 0, 1)
        places = np.full(self.count, self.members.size)
        inside = self.members.ravel() >= 0
        places[self.members.ravel()[inside]] = np.flatnonzero(inside)
        return values.emit.op(
            "Gather", flat, values.emit.ints(places.tolist()), dims=(values.dims[0], self.count), axis=1
        )


def every_token(traced: Traced, block: Block, after: Sym) -> Attending:
    """The attention of a block with its special tokens; a large one is made when `after` is known."""
    count = block.grid.patches + len(block.special)
    members = np.array(block.windows) if block.windows else None
    return Attending(block, traced.attention(block, after), count, _single(block, members))


def patches_alone(traced: Traced, block: Block, after: Sym) -> Attending:
    """The attention of a block without special tokens and padding; a large one is made when `after` is known."""
    attention, count = traced.attention(block, after), block.grid.patches
    if block.windows:
        # token -> patch, -1 for a special token; the last entry is that of padding, which is token -1
        patch_of = np.full(count + len(block.special) + 1, -1)
        patch_of[np.delete(np.arange(len(patch_of) - 1), block.special)] = np.arange(count)
        found = Attending(block, attention, count, _single(block, patch_of[np.array(block.windows)]))
        return replace(found, attention=found.masked(attention))
    axes = (2, 3) if block.reduction == 1 else (2,)
    return Attending(block, drop(attention, block.special, *axes), count)


def _single(block: Block, members: Array | None) -> Array | None:
    """The members of windows, each token in at most one: what a token gets is then looked up and not added up."""
    if members is not None and np.unique(members[members >= 0]).size != (members >= 0).sum():
        raise UnsupportedModelError(
            "grid-mismatch", f"block {block.index}: a token lies in several windows, which a built file does not carry"
        )
    return members


def window_matrices(emit: Emit, grid: Grid, side: int) -> tuple[Sym, Sym]:
    """Matrices (rows, rows of keys) and (columns, columns of keys), 1 where a token belongs to a key."""
    keys = grid.reduced(side)
    down, across = (
        matrix(emit, Taps((np.minimum(np.arange(new) // side, old - 1))[:, None],
                          (np.arange(new) < old * side).astype(np.float64)[:, None]), old)
        for new, old in zip(grid, keys, strict=True)
    )  # fmt: skip
    return down, across
