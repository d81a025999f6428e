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

import numpy as np

from gradskip_onnx.autodiff.rulesets.choice import Rules
from gradskip_onnx.autodiff.scores.log_odds import LogOdds
from gradskip_onnx.errors import InputError, UnsupportedModelError
from gradskip_onnx.images.interpolate import matrices
from gradskip_onnx.methods.gradients.value_times_gradient import at_pixels
from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.patches import Patches
from gradskip_onnx.methods.table import Method, method, one_backward, one_pass
from gradskip_onnx.types import Architecture, Array, Block, Grid, Needs, Relevance, Size, Trace, read_only

FROM, TO = 1 / 6, 2 / 3  # fractions of the depth: between them relevance is on patches and on objects


@dataclass(frozen=True, slots=True)
class GradSkipPlusOptions:
    """Options of gradskip+; each one turns a part of the method off or changes its weight."""

    against: str = option(
        "others", "what the class must stand above: all other classes, or nothing", choices=("others", "nothing")
    )
    share: float = option(0.75, "how much of the other classes counts; 1: the log-odds of the class", low=0.0, high=1.0)
    rules: str = option(
        "conservative",
        "of what is differentiated: tokens alone, or attention, norms and gates too",
        choices=("conservative", "gradient"),
    )
    gamma_conv: float = option(100.0, "gamma of the patch embedding, by conservative rules", low=0.0)
    first: int = option(0, "number of the first block whose input is read; 0: the one after a sixth of all", low=0)
    last: int = option(0, "number of the last block whose input is read; 0: the one before the last third", low=0)
    pixels: bool = option(True, "read at the pixels as well, as much as at the blocks together")
    agree: float = option(10.0, "weight of the geometric mean of the two, where both speak for the class", low=0.0)


def gradskip_plus(trace: Trace, architecture: Architecture, options: GradSkipPlusOptions) -> Relevance:
    """Scores (H, W): M + P + agree sqrt(M+ P+), with relevance M at the middle blocks and P at the pixels.

    Negative scores speak against the class; v+ = max(v, 0).
    """
    blocks = middle_blocks(architecture.blocks, options)
    size = architecture.input_dims.size
    scores = relevance_at_blocks(trace, blocks, size)
    if options.pixels:
        M, P = scores, at_pixels(trace, architecture)
        scores = M + P + options.agree * np.sqrt(np.maximum(M, 0) * np.maximum(P, 0))
    if not scores.any():
        raise UnsupportedModelError("zero-gradient", "no relevance reaches the patches; try another target or method")
    total = np.abs(scores).sum()
    checks = {"first_block": blocks[0].index + 1, "last_block": blocks[-1].index + 1, "sum": float(scores.sum())}
    return Relevance(
        scores=read_only(scores),
        checks=checks | {"negative_share": float((total - scores.sum()) / (2 * total))},
    )


def middle_blocks(blocks: Sequence[Block], options: GradSkipPlusOptions) -> Sequence[Block]:
    """The blocks whose input is read: blocks 3 to 8 of 12."""
    count = len(blocks)
    low = options.first - 1 if options.first else round(FROM * count)
    high = options.last or max(round(TO * count), low + 1)
    if not low < high <= count:
        values = f"first={options.first}, last={options.last}"
        raise InputError(f"gradskip+ options first, last: got {values}; blocks {low + 1} to {high} of {count} are none")
    return blocks[low:high]


def relevance_at_blocks(trace: Trace, blocks: Sequence[Block], size: Size) -> Array:
    """Mean over the blocks of R_i = <t_i, g_i> at their inputs, enlarged to (H, W)."""
    sums: dict[Grid, Array] = defaultdict(lambda: np.zeros(()))  # blocks of one grid are summed, then enlarged once
    for block in blocks:
        patches = Patches(trace, block)
        R = np.einsum("nd,nd->n", patches.value("tokens_in"), patches.gradient("tokens_in"), dtype=np.float64)
        sums[block.grid] = sums[block.grid] + R.reshape(block.grid)
    return np.asarray(sum(spread(R, size) for R in sums.values()) / len(blocks))


def spread(R: Array, size: Size) -> Array:
    """Relevance (rows, columns) enlarged to (H, W), linear between the centres of patches.

    The sum is kept, exactly so if the image size is a multiple of the grid.
    """
    down, across = matrices(size, R.shape)
    rows = np.einsum("yr,rc->yc", down, R) * (R.size / prod(size))  # einsum, not BLAS: its threads keep spinning
    return np.asarray(np.einsum("yc,xc->yx", rows, across))


def needs(options: GradSkipPlusOptions, architecture: Architecture) -> Needs:
    """Inputs of the middle blocks with their gradients and, with `pixels`, the gradient at the image."""
    read = tuple(block.index for block in middle_blocks(architecture.blocks, options))
    return Needs(tokens_in=read, tokens_in_gradients=read, input_gradients=options.pixels)


def rules(options: GradSkipPlusOptions) -> Rules:
    """Conservative rules with the gamma rule at the patch embedding, which only affects relevance at the pixels."""
    return Rules(options.rules, (("gamma_conv", options.gamma_conv),) if options.rules == "conservative" else ())


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
