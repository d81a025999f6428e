"""Value times gradient at the pixels, or at the tokens after the positional embedding.

With the rules of LRP in place of those of the gradient, this product is relevance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from gradskip_onnx.methods.patches import Patches
from gradskip_onnx.types import Architecture, Array, Block, Needs, Trace

from .pixel_gradients import PIXELS, gradient_at_pixels

READ_HELP = "where relevance is read: at the pixels, or at the tokens behind the positional embedding"
READS: Mapping[str, Callable[[Architecture], Needs]] = {
    "pixels": lambda _: PIXELS,
    "tokens": lambda model: Needs(position=True, tokens_in=model.first_block, tokens_in_gradients=model.first_block),
}
NO_POSITION = "the model adds no positional embedding: tokens are read where they enter the first block"


def relevance_map(trace: Trace, architecture: Architecture, read: str) -> tuple[Array, tuple[str, ...]]:
    """sum over the channels of value * gradient, (H, W) or on the grid of the first block, and notes for the user.

    Relevance of special tokens, of the positional embedding and of biases is left out.
    """
    if read == "pixels":
        return at_pixels(trace, architecture), ()
    tokens = Patches(trace, entrance(architecture))
    found = (tokens.value("tokens_in") * tokens.gradient("tokens_in")).sum(axis=1)
    return found.reshape(architecture.grid), () if architecture.position else (NO_POSITION,)


def at_pixels(trace: Trace, architecture: Architecture) -> Array:
    """sum over the channels of x * g, (H, W)."""
    return np.asarray((trace.input.astype(np.float64) * gradient_at_pixels(trace, architecture)).sum(axis=0))


def entrance(architecture: Architecture) -> Block:
    """The first block with the tokens after the positional embedding, if there is one, as its `tokens_in`."""
    first, position = architecture.blocks[0], architecture.position
    return replace(first, tokens_in=position.after, special=position.special) if position else first
