"""The options of GradSkip, each a question that the paper leaves open, and the tensors that an answer needs.

The equations as implemented, and the question behind each option, are in docs/gradskip.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gradskip_onnx.autodiff.scores.seeds import SEEDS, Seed
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.methods.options import option
from gradskip_onnx.types import Architecture, Block, Blocks, Grid, Needs

from .gates import GATES
from .heads import SELECT
from .quartiles import EVERY, FOCUS, QUARTERS

READINGS: Mapping[str, str] = {  # fields of Block
    "output": "tokens_out",
    "input": "tokens_in",
    "normed": "normed",
    "branch": "branch",
}
ENTERING = ("tokens_in", "normed")  # readings on the input side of a block
ASKED = "asked"


@dataclass(frozen=True, slots=True)
class GradSkipOptions:
    """Options of GradSkip; the defaults are the literal reading of the paper."""

    alpha: float = option(0.5, "share of gradient flow in the head weights, the rest is sparsity", low=0.0, high=1.0)
    gamma: float = option(0.25, "heads with less than this share of the strongest flow are dropped", low=0.0, high=1.0)
    eps: float = option(1e-12, "the paper's small constant", low=1e-300, high=1e-3)
    tokens: str = option(
        "output",
        "which tokens are read: a block's output, input, normalised input or attention branch",
        choices=tuple(READINGS),
    )
    gate: str = option(
        "output", "what the skip path is weighed against: tokens, block or attention", choices=tuple(GATES)
    )
    start: int = option(0, "number of the block to start at; 0: the last one with a gradient at its patches", low=0)
    steps: int = option(-1, "blocks to go back through, 0: none; -1: all but the first, as printed", low=-1)
    flow: str = option(
        "tokens", "gradient of the head flow: at the tokens read or the input", choices=("tokens", "input")
    )
    gini: str = option("head", "sparsity over a whole head, or the mean over its rows", choices=("head", "row"))
    select: str = option(
        "flow",
        "what heads below gamma lose: flow, weight, weight with the others equal; one: only the heaviest is left",
        choices=tuple(SELECT),
    )
    heads: str = option("all", "heads used: all, or a quarter, the most focused first", choices=(EVERY, *QUARTERS))
    focus: str = option("gini", "what `heads` ranks them by", choices=tuple(FOCUS))
    weight: str = option("query", "whose gradient weighs the attention", choices=("query", "key"))
    renorm_rows: bool = option(False, "make attention rows sum to 1 again after special tokens are dropped")
    special: str = option("drop", "drop special tokens first, or keep them up to the map", choices=("drop", "keep"))
    stages: str = option("all", "stages propagated through, or one start for each", choices=("all", "last", "each"))
    transition: str = option("uniform", "how a finer stage shares a cell's relevance", choices=("uniform", "gradient"))
    gradient: str = option(ASKED, "of what; asked: of what `--score` names", choices=(ASKED, *SEEDS))


def seed(options: GradSkipOptions) -> Seed | None:
    """The score that is differentiated; None: what the user asks for."""
    return SEEDS.get(options.gradient)


def needs(options: GradSkipOptions, architecture: Architecture) -> Needs:
    """Tensors that the options read: tokens with gradients, attention, and the sides of the gate."""
    reading, propagates = READINGS[options.tokens], options.steps != 0
    by_branch, by_attention = propagates and options.gate == "branch", propagates and options.gate == "attention"
    path = (options.start, options.steps, options.stages, options.transition, options.special)
    default_path = path == (0, -1, "all", "uniform", "drop") and reading not in ENTERING
    read = propagated_blocks(architecture) if default_path else architecture.every_block

    def of(needed: bool) -> Blocks:
        return read if needed else ()

    return Needs(
        attention=of(propagates),
        tokens_in=of(propagates or reading == "tokens_in"),
        tokens_out=of(reading == "tokens_out" or by_branch),
        branch=of(reading == "branch" or by_attention),
        normed=of(reading == "normed"),
        tokens_in_gradients=of(reading == "tokens_in" or (propagates and options.flow == "input")),
        tokens_out_gradients=of(reading == "tokens_out" or by_branch),
        branch_gradients=of(reading == "branch" or by_attention),
        normed_gradients=of(reading == "normed"),
    )


def propagated_blocks(architecture: Architecture) -> Blocks:
    """Blocks GradSkip propagates through by default: patch gradient present at the output, first block excluded.

    The first block is excluded because propagation ends at its output. Of two blocks both are returned: if the last
    turns out to have no gradient at its patches, propagation starts and ends at the first.
    """
    blocks = architecture.every_block
    reached = blocks if architecture.patches_read or len(blocks) == 1 else blocks[:-1]
    return reached[1:] if len(blocks) > 2 else reached


def all_tokens(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The blocks with their special tokens as patches like the others, in one row; raises where no walk can keep them.

    Such a walk needs the same tokens in all blocks, and a key for each of them.
    """
    kept = blocks[0].special
    if any(block.special != kept or block.stage != blocks[0].stage for block in blocks):
        raise UnsupportedModelError("special-tokens", "blocks have different special tokens or grids; try special=drop")
    if any(block.windows or block.reduction != 1 for block in blocks):
        raise UnsupportedModelError("special-tokens", "attention has windows or fewer keys; try special=drop")
    return tuple(replace(block, special=(), grid=Grid(1, block.grid.patches + len(kept))) for block in blocks)
