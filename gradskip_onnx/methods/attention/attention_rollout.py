"""Attention rollout: attention and skip paths of all blocks multiplied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradskip_onnx.autodiff.scores.seeds import logit
from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.passes import Passes
from gradskip_onnx.methods.table import Cost, Method, method
from gradskip_onnx.types import Architecture, Array, Needs, Relevance, Trace

from .all_tokens import FUSIONS, BlockAttention
from .readout import relevance_of_walk


@dataclass(frozen=True, slots=True)
class RolloutOptions:
    heads: str = option("mean", "how the heads become one", choices=tuple(FUSIONS))
    start: int = option(1, "number of the first block that takes part", low=1)


def rollout(trace: Trace, architecture: Architecture, options: RolloutOptions, passes: Passes) -> Relevance:
    """The row of the class token in Â^L ... Â^start, at the patches; Â = Ā + I with rows divided by their sums."""
    fuse = FUSIONS[options.heads]

    def back_through(block: BlockAttention, row: Array) -> Array:
        A = block.attention
        shared = row / (1 + block.sums(fuse, A))
        return np.asarray(shared + block.carry(shared, fuse, A))

    return relevance_of_walk(trace, architecture, passes, options.start, back_through)


ROLLOUT = method(
    Method(
        name="rollout",
        summary="attention and skip paths of all blocks multiplied",
        reference="Abnar and Zuidema, Quantifying Attention Flow in Transformers, ACL 2020",
        options=RolloutOptions,
        needs=lambda _, model: Needs(attention=model.every_block, tokens_out_gradients=model.last_block),
        run=rollout,
        cost=lambda _: Cost(1, 0, "and back through the head, to see which tokens it reads"),
        seed=lambda _: logit,
    )
)
