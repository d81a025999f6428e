"""Transformer attribution ("Chefer1"): relevance of attention weighted by its gradient, multiplied over the blocks."""

from __future__ import annotations

from dataclasses import dataclass

from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.passes import Passes
from gradskip_onnx.methods.table import Cost, Method, method
from gradskip_onnx.types import Architecture, Array, Needs, Relevance, Trace

from .all_tokens import BlockAttention
from .chefer2 import weighted
from .readout import relevance_of_walk


@dataclass(frozen=True, slots=True)
class Chefer1Options:
    start: int = option(1, "number of the first block that takes part; the paper's evaluations begin at 2", low=1)


def chefer1(trace: Trace, architecture: Architecture, options: Chefer1Options, passes: Passes) -> Relevance:
    """The row of the class token in (I + C^L) ... (I + C^start), C = mean over the heads of relu(G * R).

    G is the gradient at the attention, R the relevance of the attention.
    """

    def back_through(block: BlockAttention, row: Array) -> Array:
        return row + block.carry(row, weighted, block.relevance, block.gradient)

    return relevance_of_walk(trace, architecture, passes, options.start, back_through)


CHEFER1 = method(
    Method(
        name="chefer1",
        summary="relevance of attention weighted by its gradient, multiplied over the blocks",
        reference="Chefer, Gur and Wolf, Transformer Interpretability Beyond Attention Visualization, CVPR 2021",
        options=Chefer1Options,
        needs=lambda _, model: Needs(
            attention_gradients=model.every_block,
            tokens_out_gradients=model.last_block,
            attention_relevance="chefer1",
        ),
        run=chefer1,
        cost=lambda _: Cost(1, 2, at_once=2, note="the second backward pass carries relevance"),
    )
)
