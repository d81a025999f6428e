"""The skip gate of GradSkip: what the main path is weighed against, one function per choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..types import Array
from .patches import Patches, overlaps

Sides = tuple[Array, Array, Array]  # main path, skip path, gradient; all (n, d)


def share(sides: Sides, events: Counter[str]) -> float:
    """b = sum |G * main| / (sum |G * main| + sum |G * skip|); 0/0 is a half, counted."""
    main, skip, G = sides
    through, around = float(overlaps(G, main).sum()), float(overlaps(G, skip).sum())
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
    tokens, G = blocks[at].tokens(reading), blocks[at].slopes(reading)
    if reading != "tokens_in":
        return tokens, blocks[at].tokens("tokens_in"), G
    if at == 0 or blocks[at - 1].block.stage != blocks[at].block.stage:
        return np.zeros_like(tokens), np.zeros_like(tokens), G
    return tokens, blocks[at - 1].tokens("tokens_in"), G


def by_branch(blocks: Sequence[Patches], at: int, _reading: str) -> Sides:
    """What the whole block adds, f = out - in, against what it adds to."""
    entered = blocks[at].value("tokens_in")
    return blocks[at].value("tokens_out") - entered, entered, blocks[at].gradient("tokens_out")


def by_attention(blocks: Sequence[Patches], at: int, _reading: str) -> Sides:
    """What the attention alone adds, against what it adds to."""
    return blocks[at].tokens("branch"), blocks[at].tokens("tokens_in"), blocks[at].slopes("branch")


GATES: Mapping[str, Callable[[Sequence[Patches], int, str], Sides]] = {
    "output": by_output,
    "branch": by_branch,
    "attention": by_attention,
}
