"""Attention rollout as operators: a row over tokens, carried back through one block after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from gradskip_onnx.autodiff.sym import Sym
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.methods.attention.attention_rollout import RolloutOptions
from gradskip_onnx.methods.attention.readout import first_block
from gradskip_onnx.types import Array, Block

from .attention import every_token
from .grids import constant, no_zero, spread_cells
from .layouts import drop
from .table import propagation
from .traced import Traced

FUSIONS: Mapping[str, Callable[[Sym], Sym]] = {
    "mean": lambda A: A.mean([1], keepdims=False),
    "max": lambda A: A.emit.reduce("ReduceMax", A, [1], False),
    "min": lambda A: A.emit.reduce("ReduceMin", A, [1], False),
}


@propagation("rollout")
def rollout(traced: Traced, options: RolloutOptions) -> Sym:
    """The row of the class token in Â^L ... Â^start, at the patches; Â = Ā + I with rows divided by their sums."""
    blocks, stop = traced.architecture.blocks, first_block(options.start, traced.architecture)
    row = _start(traced, blocks[-1])
    for at in range(len(blocks) - 1, stop - 1, -1):
        attending = every_token(traced, blocks[at], row)
        mixed = attending.masked(FUSIONS[options.heads](attending.attention))
        shared = attending.at_queries(row) / (mixed.sum([-1]) + 1)
        row = attending.from_queries(shared) + attending.from_keys(mixed.mT @ shared)
        if at > stop:
            row = _to_block_before(row, blocks[at], blocks[at - 1])
    patches = drop(row, blocks[stop].special, 1)
    return patches.reshape((patches.dims[0], *blocks[stop].grid))


def _start(traced: Traced, last: Block) -> Sym:
    """The tokens of the last block that the score is read from, (B, N), sum 1."""
    shares = traced.pixel_shares()
    if shares is None:
        gradient = traced.every_gradient(last, "tokens_out")
        strongest = gradient.emit.reduce("ReduceMax", gradient.apply("Abs"), [2], False)
        row = (strongest > 0).cast(np.float32)
    else:
        down, across = (
            constant(shares, overlaps_of(mine, theirs))
            for mine, theirs in zip(last.grid, (shares.dims[1] or 0, shares.dims[2] or 0), strict=True)
        )
        under = down @ shares @ across.mT
        row = _with_special(under.reshape((under.dims[0], last.grid.patches)), last.special)
    return row / no_zero(row.sum([1]))


def overlaps_of(patches: int, pixels: int) -> Array:
    """(patches, pixels): along one axis, how many samples of the finer grid lie in both."""
    fine = np.arange(max(patches, pixels))
    found = np.zeros((patches, pixels))
    np.add.at(found, (fine * patches // len(fine), fine * pixels // len(fine)), 1)
    return found


def _to_block_before(row: Sym, block: Block, before: Block) -> Sym:
    """A row over the tokens of `block` over those of the block before; a coarse patch is divided among its cell."""
    if (block.grid, block.special) == (before.grid, before.special):
        return row
    if not before.grid.covers(block.grid):
        where = f"block {block.index}: tokens go from {before.grid} to {block.grid}"
        raise UnsupportedModelError("grid-mismatch", f"{where}, a later stage must be coarser; use another method")
    patches = drop(row, block.special, 1).reshape((row.dims[0], *block.grid))
    fine = spread_cells(patches, before.grid)
    return _with_special(fine.reshape((row.dims[0], before.grid.patches)), before.special)


def _with_special(patches: Sym, special: tuple[int, ...]) -> Sym:
    """(B, n) -> (B, N) with zeros at the special tokens."""
    if not special:
        return patches
    count = (patches.dims[1] or 0) + len(special)
    places = np.full(count, patches.dims[1])
    places[np.delete(np.arange(count), special)] = np.arange(patches.dims[1] or 0)
    ints = patches.emit.ints(places.tolist())
    return patches.emit.op("Gather", patches.pad(1, 0, 1), ints, dims=(patches.dims[0], count), axis=1)
