"""GradSkip+: relevance split exactly between skip path and branch, read at the middle blocks and at the pixels.

With attention, the spread of the norms and the gates of the activations held constant every block is linear. One
backward pass then carries relevance through all skip paths, branches and heads at once, token by token and with its
sign; the gates, head weights and weighted attention of GradSkip are estimates of these shares. Equations, reasons and
figures are in docs/gradskip_plus.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ..autodiff.choice import Rules
from ..autodiff.odds_seed import log_odds
from ..errors import InputError, UnsupportedModelError
from ..types import Architecture, Array, Block, Grid, Needs, Relevance, Trace, read_only
from . import Method, method, one_backward, one_pass
from .attributed import at_pixels
from .enlarge import half_pixel
from .options import check, option
from .patches import Patches
from .windows import cells

FROM, TO = 1 / 6, 2 / 3  # of the depth: where relevance has left the class token and still lies on objects
QUARTERS = 4  # cells a side of a patch, in which the relevance of pixels is gathered


@dataclass(frozen=True, slots=True)
class GradSkipPlusOptions:
    """The defaults are the method; each switch takes one part of it away."""

    against: str = option(
        "others", "what the class must stand above: all other classes, or nothing", choices=("others", "nothing")
    )
    rules: str = option(
        "conservative",
        "of what is differentiated: tokens alone, or attention, norms and gates too",
        choices=("conservative", "gradient"),
    )
    first: int = option(0, "number of the first block whose input is read; 0: the one after a sixth of all", low=0)
    last: int = option(0, "number of the last block whose input is read; 0: the one before the last third", low=0)
    pixels: bool = option(True, "read at the pixels as well, with the weight of one block among all")

    def __post_init__(self) -> None:
        check("gradskip+", self)


def gradskip_plus(trace: Trace, architecture: Architecture, options: GradSkipPlusOptions) -> Relevance:
    """The mean over the middle blocks, and the pixels as one depth more; negative speaks against the class."""
    blocks = middle(architecture.blocks, options)
    height, width = architecture.input_dims[1:]
    fine = (min(QUARTERS * architecture.grid[0], height), min(QUARTERS * architecture.grid[1], width))
    scores = np.mean([spread(of_tokens(Patches(trace, block)), fine) for block in blocks], axis=0)
    if options.pixels:
        scores = scores + of_pixels(trace, architecture, fine) / len(architecture.blocks)
    if not scores.any():
        raise UnsupportedModelError("zero-gradient", "no relevance reaches the patches; try another target or method")
    size = np.abs(scores).sum()
    checks = {"first_block": blocks[0].index + 1, "last_block": blocks[-1].index + 1, "sum": float(scores.sum())}
    return Relevance(
        scores=read_only(scores),
        method="gradskip+",
        options=asdict(options),
        checks=checks | {"negative_share": float((size - scores.sum()) / (2 * size))},
    )


def middle(blocks: Sequence[Block], options: GradSkipPlusOptions) -> Sequence[Block]:
    """The blocks whose input is read: of 12 the third to the eighth."""
    count = len(blocks)
    low = options.first - 1 if options.first else round(FROM * count)
    high = options.last or max(round(TO * count), low + 1)
    if not low < high <= count:
        given = f"first={options.first}, last={options.last}"
        raise InputError(f"gradskip+ options first, last: got {given}; blocks {low + 1} to {high} of {count} are none")
    return blocks[low:high]


def of_tokens(patches: Patches) -> Array:
    """R_i = <t_i, g_i> at the input of a block, on its grid."""
    R = (patches.value("tokens_in") * patches.gradient("tokens_in")).sum(axis=1)
    return np.asarray(R.reshape(patches.block.grid))


def of_pixels(trace: Trace, architecture: Architecture, fine: Grid) -> Array:
    """sum over channels and over the pixels of each cell of x * g: a grey image, x = 0, would have no relevance."""
    R = at_pixels(trace, architecture)
    place = cells(fine, (R.shape[0], R.shape[1]))
    return np.bincount(place, R.ravel(), fine[0] * fine[1]).reshape(fine)


def spread(R: Array, fine: Grid) -> Array:
    """Relevance of tokens between their centres and with its sum kept (exactly so where the grids divide)."""
    down, across = (half_pixel(new, old) for new, old in zip(fine, R.shape, strict=True))
    return np.asarray(down @ R @ across.T * (R.size / (fine[0] * fine[1])))


def needs(options: GradSkipPlusOptions) -> Needs:
    return Needs(tokens_in="all", tokens_in_gradients="all", input_gradients=options.pixels)


GRADSKIP_PLUS = method(
    Method(
        name="gradskip+",
        summary="exact split between skip paths and branches, at the middle blocks and the pixels",
        reference="this project, docs/gradskip_plus.md; after Buratti et al., and Ali et al. 2022",
        options=GradSkipPlusOptions,
        needs=needs,
        run=one_pass(gradskip_plus),
        cost=one_backward,
        rules=lambda options: Rules(options.rules),
        seed=lambda options: log_odds if options.against == "others" else None,
    )
)
