"""The skip gate of GradSkip: what the main path is weighed against, one function per choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gradskip_onnx.methods.patches import Patches, overlaps
from gradskip_onnx.types import Array

Sides = tuple[Array, Array]  # sum_k |G * .| of the main path and of the skip path, (n,) each


def share(sides: Sides, events: Counter[str]) -> float:
    """b = sum |G * main| / (sum |G * main| + sum |G * skip|); 0/0 is a half, counted."""
    through, around = (float(side.sum()) for side in sides)
    if through + around == 0:
        events["even_gates"] += 1
        return 0.5
    return through / (through + around)


def by_output(blocks: Sequence[Patches], at: int, reading: str) -> Sides:
    """As printed: the tokens of this block against those of the one before.

    The block before a block's output, or its attention branch, is what enters it. What enters it has the entrance of
    the block before on its other side; at the first block of a stage there is none of the same shape, and the zeros
    returned make the gate undefined.
    """
    main, G = blocks[at].abs_product(reading), blocks[at].raw_gradient(reading)
    if reading != "tokens_in":
        return main, overlaps(G, blocks[at].tokens("tokens_in"))
    if at == 0 or blocks[at - 1].block.stage != blocks[at].block.stage:
        return np.zeros_like(main), np.zeros_like(main)
    return main, overlaps(G, blocks[at - 1].tokens("tokens_in"))


def by_branch(blocks: Sequence[Patches], at: int, _reading: str) -> Sides:
    """What the whole block adds, f = out - in, against what it adds to."""
    entered, G = blocks[at].value("tokens_in"), blocks[at].gradient("tokens_out")
    return overlaps(G, blocks[at].value("tokens_out") - entered), overlaps(G, entered)


def by_attention(blocks: Sequence[Patches], at: int, _reading: str) -> Sides:
    """What the attention alone adds, against what it adds to."""
    return blocks[at].abs_product("branch"), overlaps(blocks[at].raw_gradient("branch"), blocks[at].tokens("tokens_in"))


GATES: Mapping[str, Callable[[Sequence[Patches], int, str], Sides]] = {
    "output": by_output,
    "branch": by_branch,
    "attention": by_attention,
}
