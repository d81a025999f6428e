"""The skip gate of GradSkip: the share of relevance that goes through the main path; one function per option value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gradskip_onnx.methods.patches import Patches, overlaps
from gradskip_onnx.types import Array

Sides = tuple[Array, Array]  # sum_k |G * T| with T of the main path and of the skip path, (n,) each


def share(sides: Sides, events: Counter[str]) -> float:
    """b = sum |G * main| / (sum |G * main| + sum |G * skip|); 0/0 is a half, counted in `events`."""
    main, skip = (float(side.sum()) for side in sides)
    if main + skip == 0:
        events["even_gates"] += 1
        return 0.5
    return main / (main + skip)


def by_output(blocks: Sequence[Patches], at: int, reading: str) -> Sides:
    """As printed in the paper: the tokens of this block (main) against those of the block before (skip).

    If the tokens are the output or the branch of a block, those of the block before are this block's input. If they
    are inputs, normalised or not, the skip side is that of the block before; the first block of a stage has none of the
    same shape, and zeros make its gate undefined (a half).
    """
    main, G = blocks[at].abs_product(reading), blocks[at].raw_gradient(reading)
    if reading in ("tokens_out", "branch"):
        return main, overlaps(G, blocks[at].tokens("tokens_in"))
    if at == 0 or blocks[at - 1].block.stage != blocks[at].block.stage:
        return np.zeros_like(main), np.zeros_like(main)
    return main, overlaps(G, blocks[at - 1].tokens(reading))


def by_branch(blocks: Sequence[Patches], at: int, _reading: str) -> Sides:
    """What the whole block adds, f = out - in (main), against its input (skip)."""
    block_input, G = blocks[at].value("tokens_in"), blocks[at].gradient("tokens_out")
    return overlaps(G, blocks[at].value("tokens_out") - block_input), overlaps(G, block_input)


def by_attention(blocks: Sequence[Patches], at: int, _reading: str) -> Sides:
    """What the attention adds (main) against the input of the block (skip)."""
    return blocks[at].abs_product("branch"), overlaps(blocks[at].raw_gradient("branch"), blocks[at].tokens("tokens_in"))


GATES: Mapping[str, Callable[[Sequence[Patches], int, str], Sides]] = {
    "output": by_output,
    "branch": by_branch,
    "attention": by_attention,
}
