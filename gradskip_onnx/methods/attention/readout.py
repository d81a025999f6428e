"""Finds the tokens the score is read from, and carries a row over tokens from the last block back to an earlier one.

Rollout, Chefer's methods and TAM need one row of a product of matrices: that of the class token. The row is multiplied
by one matrix after the other, so no product of matrices is formed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradskip_onnx.errors import InputError, UnsupportedModelError
from gradskip_onnx.methods.passes import Passes
from gradskip_onnx.methods.windows import cells
from gradskip_onnx.types import Architecture, Array, Block, Relevance, Trace, read_only

from .all_tokens import BlockAttention

Step = Callable[[BlockAttention, Array], Array]


def start(trace: Trace, architecture: Architecture, passes: Passes) -> Array:
    """The tokens of the last block that the score is read from: a row (N,), sum 1.

    Classification: equal weights at all tokens where the score has a gradient (the class token, class and distillation
    token, or all averaged tokens). Segmentation: patches under the explained pixels, weighted by covered area.
    """
    last = architecture.blocks[-1]
    pixels = passes.pixels()
    row = _read_by_head(trace, last) if pixels is None else _under(pixels, last)
    return np.asarray(row / row.sum())


def walk(trace: Trace, architecture: Architecture, row: Array, stop: int, step: Step) -> Array:
    """Carry `row` (N,) from the last block back through block `stop` (0 is the first); (n,) at its patches."""
    blocks = architecture.blocks
    for at in range(len(blocks) - 1, stop - 1, -1):
        row = step(BlockAttention(trace, blocks[at]), row)
        if at > stop:
            row = to_block_before(row, blocks[at], blocks[at - 1])
    return BlockAttention(trace, blocks[stop]).patches(row)


def relevance_of_walk(trace: Trace, architecture: Architecture, passes: Passes, first: int, step: Step) -> Relevance:
    """The walk from the tokens that the score is read from back through block number `first` (from 1), as scores."""
    row, stop = start(trace, architecture, passes), first_block(first, architecture)
    found = walk(trace, architecture, row, stop, step)
    return Relevance(
        read_only(found.reshape(architecture.blocks[stop].grid)),
        checks={"tokens_read": float((row > 0).sum()), "sum": float(found.sum())},
    )


def to_block_before(row: Array, block: Block, before: Block, *, divide: bool = True) -> Array:
    """A row over the tokens of `block` as a row over the tokens of the block before it.

    At a stage change the value of a coarse patch is divided equally among the fine patches of its cell, or copied to
    each with divide=False. The values of special tokens are dropped: these tokens do not come from the stage before.
    """
    if (block.grid, block.special) == (before.grid, before.special):
        return row
    if not before.grid.covers(block.grid):
        where = f"block {block.index}: tokens go from {before.grid} to {block.grid}"
        raise UnsupportedModelError("grid-mismatch", f"{where}, a later stage must be coarser; use another method")
    cell = cells(block.grid, before.grid)
    patches = np.delete(row, block.special)
    if divide:
        patches = patches / np.bincount(cell)
    found = np.zeros(len(cell) + len(before.special))
    found[np.delete(np.arange(len(found)), before.special)] = patches[cell]
    return found


def first_block(number: int, architecture: Architecture) -> int:
    """The position of block `number`, which counts from 1."""
    if number > len(architecture.blocks):
        raise InputError(f"option start: got {number}, allowed: at most {len(architecture.blocks)}")
    return number - 1


def _read_by_head(trace: Trace, last: Block) -> Array:
    """1 at each output token of the last block where the score has a gradient, else 0; (N,)."""
    found = np.abs(trace.gradients[last.tokens_out]).max(axis=1) > 0
    if not found.any():
        raise UnsupportedModelError(
            "zero-gradient",
            "the score has no gradient at the last block, so no token is known to be read; try another target",
        )
    return np.asarray(found, dtype=np.float64)


def _under(pixels: Array, last: Block) -> Array:
    """The weight of the pixels over each patch, (N,), 0 at special tokens; both grids are refined to a common one."""
    fine = (max(pixels.shape[0], last.grid.rows), max(pixels.shape[1], last.grid.columns))
    rows, columns = pixels.shape
    weights = pixels.ravel()[cells((rows, columns), fine)].astype(np.float64)
    found = np.zeros(last.grid.patches + len(last.special))
    found[np.delete(np.arange(len(found)), last.special)] = np.bincount(cells(last.grid, fine), weights)
    return found
