"""The method `token-gradient`: tokens times gradient, read at one block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradskip_onnx.plugins import (
    Architecture,
    Method,
    Needs,
    Patches,
    Relevance,
    Trace,
    one_backward,
    one_pass,
    option,
    read_only,
)


@dataclass(frozen=True, slots=True)
class TokenGradientOptions:
    depth: float = option(0.5, "which block is read: 0 the first, 1 the last", low=0.0, high=1.0)
    signed: bool = option(False, "keep the signs")


def block_at(options: TokenGradientOptions, model: Architecture) -> int:
    return round(options.depth * (len(model.blocks) - 1))


def needs(options: TokenGradientOptions, model: Architecture) -> Needs:
    """What the pass through the model must show: nothing else is computed."""
    at = (block_at(options, model),)
    return Needs(tokens_in=at, tokens_in_gradients=at)


def token_gradient(trace: Trace, model: Architecture, options: TokenGradientOptions) -> Relevance:
    """The sum over the channels of x · dy/dx at each patch."""
    patches = Patches(trace, model.blocks[block_at(options, model)])
    scores = (patches.value("tokens_in") * patches.gradient("tokens_in")).sum(axis=1)  # (n,)
    found = scores if options.signed else np.abs(scores)
    return Relevance(read_only(found.reshape(patches.block.grid)))


TOKEN_GRADIENT = Method(
    name="token-gradient",
    summary="tokens times gradient at one block",
    reference="an example",
    options=TokenGradientOptions,
    needs=needs,
    run=one_pass(token_gradient),
    cost=one_backward,
)
