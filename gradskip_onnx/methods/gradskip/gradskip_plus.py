"""GradSkip+: relevance split exactly between skip path and branch, read at the middle blocks and at the pixels.

If attention, the deviations of the norms and the gates of the activations are held constant, every block is linear, and
one backward pass carries signed relevance through all skip paths, branches and heads. The gates, head weights and
weighted attention of GradSkip estimate the same shares. Equations, reasons and figures are in docs/gradskip_plus.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from gradskip_onnx.autodiff.rulesets.choice import Rules
from gradskip_onnx.autodiff.scores.log_odds import LogOdds
from gradskip_onnx.errors import InputError, UnsupportedModelError
from gradskip_onnx.images.interpolate import enlarge
from gradskip_onnx.methods.gradients.pixel_gradients import require_finite
from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.patches import Patches, products
from gradskip_onnx.methods.table import Method, method, one_backward, one_pass
from gradskip_onnx.methods.windows import cell_sizes, cell_sums, stretched
from gradskip_onnx.types import Architecture, Array, Block, Grid, Needs, Relevance, Size, Trace, read_only

FROM, TO = 1 / 6, 2 / 3  # fractions of the depth: between them relevance is on patches and on objects


@dataclass(frozen=True, slots=True)
class GradSkipPlusOptions:
    """Options of gradskip+; each one turns a part of the method off or changes its weight."""

    against: str = option(
        "others", "what the class must stand above: all other classes, or nothing", choices=("others", "nothing")
    )
    share: float = option(1.0, "how much of the other classes counts; 1: the log-odds of the class", low=0.0, high=1.0)
    rules: str = option(
        "conservative",
        "of what is differentiated: tokens alone, or attention, norms and gates too",
        choices=("conservative", "gradient"),
    )
    gamma_conv: float = option(100.0, "gamma of the patch embedding, by conservative rules", low=0.0)
    first: int = option(0, "number of the first block whose input is read; 0: the one after a sixth of all", low=0)
    last: int = option(0, "number of the last block whose input is read; 0: the one before the last third", low=0)
    detail: float = option(0.5, "how much of a patch's relevance is shared out among its pixels", low=0.0, high=1.0)
    pixels: float = option(0.25, "weight of the relevance of the pixels themselves", low=0.0)
    contrast: float = option(2.0, "power of the scores, signs kept; changes no order", low=1.0, high=4.0)
    opposing: float = option(0.1, "weight of what speaks against the class; changes no order", low=0.01, high=1.0)


def gradskip_plus(trace: Trace, architecture: Architecture, options: GradSkipPlusOptions) -> Relevance:
    """Scores (H, W): relevance of the middle blocks, shared out within patches, plus `pixels` times that of the pixels.

    Negative scores speak against the class.
    """
    blocks = middle_blocks(architecture.blocks, options)
    x = np.asarray(trace.input, np.float32)  # at image size single precision is enough, and half the memory
    centred = x - x.mean(axis=(1, 2), dtype=np.float64, keepdims=True).astype(np.float32)
    strength = _at_pixels(centred, trace.unsigned[architecture.input]) if options.detail else None
    scores = relevance_at_blocks(trace, blocks, architecture.input_dims.size, strength, options.detail)
    if options.pixels:
        scores += options.pixels * _at_pixels(centred, trace.gradients[architecture.input])
    size = np.abs(scores)
    if not size.max():
        raise UnsupportedModelError("zero-gradient", "no relevance reaches the patches; try another target or method")
    total, absolute = (float(values.sum(dtype=np.float64)) for values in (scores, size))
    checks = {"first_block": blocks[0].index + 1, "last_block": blocks[-1].index + 1, "sum": total}
    checks["negative_share"] = (absolute - total) / (2 * absolute)
    np.multiply(scores, options.opposing, out=scores, where=scores < 0)
    size /= size.max()
    size **= options.contrast - 1
    scores *= size
    return Relevance(scores=read_only(scores), checks=checks)


def _at_pixels(centred: Array, gradient: Array) -> Array:
    """sum over the channels of (x - mean colour) * gradient, (H, W): the relevance by the centred gamma rule."""
    return np.asarray(np.einsum("chw,chw->hw", centred, np.asarray(require_finite(gradient), np.float32)))


def middle_blocks(blocks: Sequence[Block], options: GradSkipPlusOptions) -> Sequence[Block]:
    """The blocks whose input is read: blocks 3 to 8 of 12."""
    count = len(blocks)
    low = options.first - 1 if options.first else round(FROM * count)
    high = options.last or max(round(TO * count), low + 1)
    if not low < high <= count:
        values = f"first={options.first}, last={options.last}"
        raise InputError(f"gradskip+ options first, last: got {values}; blocks {low + 1} to {high} of {count} are none")
    return blocks[low:high]


def relevance_at_blocks(
    trace: Trace, blocks: Sequence[Block], size: Size, strength: Array | None = None, detail: float = 0.0
) -> Array:
    """Mean over the blocks of R_i = <t_i, g_i> at their inputs, enlarged to (H, W).

    The part `detail` of a patch's relevance is shared out among its pixels in proportion to `strength` (H, W).
    """
    sums: dict[Grid, Array] = defaultdict(lambda: np.zeros(()))  # blocks of one grid are summed, then enlarged once
    for block in blocks:
        patches = Patches(trace, block)
        R = products(patches.tokens("tokens_in"), patches.raw_gradient("tokens_in"))
        sums[block.grid] = sums[block.grid] + R.reshape(block.grid).astype(np.float64) / len(blocks)
    total = np.zeros(size, np.float32)
    for grid, R in sums.items():
        enlarged = spread(R, size, np.float32)
        if strength is not None:
            shares = density(strength, grid)
            shares *= detail
            shares += 1 - detail
            enlarged *= shares
        total += enlarged
    return total


def density(strength: Array, grid: Grid) -> Array:
    """Strength of each pixel over the mean of its patch, (H, W); 1 in a patch that has none. Negative counts as 0."""
    found = np.maximum(strength, 0)
    rows, columns = (cell_sizes(coarse, fine) for coarse, fine in zip(grid, strength.shape, strict=True))
    totals = cell_sums(cell_sums(found, rows).T, columns).T
    empty = totals == 0
    factor = np.where(empty, 0.0, np.outer(rows, columns) / np.where(empty, 1.0, totals))
    found *= stretched(factor.astype(found.dtype), rows, columns)
    if empty.any():
        found += stretched(empty, rows, columns)
    return found


def spread(R: Array, size: Size, dtype: Any = np.float64) -> Array:
    """Relevance (rows, columns) enlarged to (H, W), linear between the centres of patches.

    The sum is kept, exactly so if the image size is a multiple of the grid.
    """
    return enlarge(R * (R.size / prod(size)), size, dtype)


def needs(options: GradSkipPlusOptions, architecture: Architecture) -> Needs:
    """Inputs of the middle blocks with their gradients and, where the options read them, gradients at the image."""
    read = tuple(block.index for block in middle_blocks(architecture.blocks, options))
    return Needs(
        tokens_in=read,
        tokens_in_gradients=read,
        input_gradients=bool(options.pixels),
        unsigned_input_gradients=bool(options.detail),
    )


def rules(options: GradSkipPlusOptions) -> Rules:
    """Conservative rules with the centred gamma rule at the patch embedding, which only affects the pixels."""
    centred = (("gamma_conv", options.gamma_conv), ("centred", 1.0))
    return Rules(options.rules, centred if options.rules == "conservative" else ())


GRADSKIP_PLUS = method(
    Method(
        name="gradskip+",
        summary="exact split between skip paths and branches, at the middle blocks and the pixels",
        reference="this project, docs/gradskip_plus.md; after Buratti et al., and Ali et al. 2022",
        options=GradSkipPlusOptions,
        needs=needs,
        run=one_pass(gradskip_plus),
        cost=one_backward,
        rules=rules,
        seed=lambda options: LogOdds(options.share) if options.against == "others" else None,
    )
)
