"""Generic attention explainability ("Chefer2"): attention weighted by its gradient, added up over the blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.passes import Passes
from gradskip_onnx.methods.table import Method, method, one_backward
from gradskip_onnx.types import Architecture, Array, Needs, Relevance, Trace

from .all_tokens import BlockAttention
from .readout import relevance_of_walk


@dataclass(frozen=True, slots=True)
class Chefer2Options:
    start: int = option(1, "number of the first block that takes part", low=1)


def weighted(A: Array, G: Array) -> Array:
    """E = mean over the heads of relu(G * A), (queries, keys)."""
    return np.asarray(np.maximum(G * A, 0).mean(axis=0))


def chefer2(trace: Trace, architecture: Architecture, options: Chefer2Options, passes: Passes) -> Relevance:
    """R <- R + E R over the blocks, from R = I: the row of the class token in (I + E^L) ... (I + E^start)."""

    def back_through(block: BlockAttention, row: Array) -> Array:
        return row + block.carry(row, weighted, block.attention, block.gradient)

    return relevance_of_walk(trace, architecture, passes, options.start, back_through)


CHEFER2 = method(
    Method(
        name="chefer2",
        summary="attention weighted by its gradient, added up over the blocks",
        reference="Chefer, Gur and Wolf, Generic Attention-model Explainability, ICCV 2021",
        options=Chefer2Options,
        needs=lambda _, model: Needs(
            attention=model.every_block,
            attention_gradients=model.every_block,
            tokens_out_gradients=model.last_block,
        ),
        run=chefer2,
        cost=one_backward,
    )
)
