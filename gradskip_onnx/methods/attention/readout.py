"""Which tokens the score is read from, and the way of a row over tokens from the last block down to an earlier one.

Rollout, its relatives and TAM all ask for one row of a product of matrices: that of the class token. The row is carried
through the product from the left, so no product of matrices is ever formed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradskip_onnx.errors import InputError, UnsupportedModelError
from gradskip_onnx.methods.passes import Passes
from gradskip_onnx.methods.windows import cells
from gradskip_onnx.types import Architecture, Array, Block, Trace

from .all_tokens import BlockAttention

Step = Callable[[BlockAttention, Array], Array]


def start(trace: Trace, architecture: Architecture, passes: Passes) -> Array:
    """(N,), sum 1: the tokens of the last block that the score is read from, each with the same weight.

    Classification: those at which the score has a gradient, which are the class token, the class and the distillation
    token, or every token that is averaged. Segmentation: the patches under the pixels explained, by covered area.
    """
    last = architecture.blocks[-1]
    pixels = passes.pixels()
    row = _read_by_head(trace, last) if pixels is None else _under(pixels, last)
    return np.asarray(row / row.sum())


def walk(trace: Trace, architecture: Architecture, row: Array, stop: int, step: Step) -> Array:
    """Carry `row` from the last block down to block `stop` (0 is the first); (n,) on the grid of that block."""
    blocks = architecture.blocks
    for at in range(len(blocks) - 1, stop - 1, -1):
        row = step(BlockAttention(trace, blocks[at]), row)
        if at > stop:
            row = handed_down(row, blocks[at], blocks[at - 1])
    return BlockAttention(trace, blocks[stop]).patches(row)


def handed_down(row: Array, block: Block, before: Block, *, divide: bool = True) -> Array:
    """A row over the tokens of a block, over those of the block before it.

    At a stage change a coarse patch passes on to the fine patches of its cell, in equal parts (or, with divide=False,
    each the whole). Special tokens do not come from the stage before: what lies on them ends there.
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
    """The position of the block that a user calls `number`."""
    if number > len(architecture.blocks):
        raise InputError(f"option start: got {number}, allowed: at most {len(architecture.blocks)}")
    return number - 1


def _read_by_head(trace: Trace, last: Block) -> Array:
    found = np.abs(trace.gradients[last.tokens_out]).max(axis=1) > 0
    if not found.any():
        raise UnsupportedModelError(
            "zero-gradient",
            "the score has no gradient at the last block, so no token is known to be read; try another target",
        )
    return np.asarray(found, dtype=np.float64)


def _under(pixels: Array, last: Block) -> Array:
    """How much of the pixels lies on each patch; cells of both grids are cut to the finer of the two."""
    fine = (max(pixels.shape[0], last.grid.rows), max(pixels.shape[1], last.grid.columns))
    rows, columns = pixels.shape
    weights = pixels.ravel()[cells((rows, columns), fine)].astype(np.float64)
    found = np.zeros(last.grid.patches + len(last.special))
    found[np.delete(np.arange(len(found)), last.special)] = np.bincount(cells(last.grid, fine), weights)
    return found
