"""Transition Attention Maps: states of a Markov chain over the blocks, weighed by integrated gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.passes import Passes
from gradskip_onnx.methods.table import Cost, Method, method
from gradskip_onnx.types import Architecture, Array, Needs, Relevance, Trace, read_only

from .all_tokens import FUSIONS, BlockAttention
from .readout import first_block, start, to_block_before, walk


@dataclass(frozen=True, slots=True)
class TamOptions:
    steps: int = option(20, "images between the zero image and the image, both included", low=2)
    start: int = option(0, "number of the first block that takes part; 0: a third of them are left out", low=0)


def tam(trace: Trace, architecture: Architecture, options: TamOptions, passes: Passes) -> Relevance:
    """s * W with s = Ā^L[cls], s <- s Ā^l + s for l = L-1 ... start, and W = mean over the heads of relu(D)[cls].

    D is the integrated gradient at the attention of the last block.
    """
    mean, blocks = FUSIONS["mean"], architecture.blocks
    stop = first_block(options.start or len(blocks) // 3 + 1, architecture)

    def back_through(block: BlockAttention, state: Array) -> Array:
        moved = block.carry(state, mean, block.attention)
        return moved if block.block is blocks[-1] else moved + state

    row = start(trace, architecture, passes)
    state = walk(trace, architecture, row, stop, back_through)
    weight = BlockAttention(trace, blocks[-1]).carry(row, _positive, _integrated(trace, architecture, options, passes))
    for at in range(len(blocks) - 1, stop, -1):
        weight = to_block_before(weight, blocks[at], blocks[at - 1], divide=False)
    found = state * BlockAttention(trace, blocks[stop]).patches(weight)
    return Relevance(
        read_only(found.reshape(blocks[stop].grid)),
        checks={"tokens_read": float((row > 0).sum()), "start_block": float(stop + 1), "sum": float(found.sum())},
    )


def _integrated(trace: Trace, architecture: Architecture, options: TamOptions, passes: Passes) -> Array:
    """D = mean over the steps of dy(a x)/dA^L, a from 0 to 1; y is the score of the class of the full image."""
    last = architecture.blocks[-1].attention
    shares = np.linspace(0, 1, options.steps, dtype=np.float32)
    images = shares[:, None, None, None] * trace.input
    needs = Needs(attention_gradients=architecture.last_block)
    total = None
    for scaled in passes.traces(images, needs):
        D = scaled.gradients[last]
        total = D.astype(np.float64) if total is None else np.add(total, D, out=total)
    return np.asarray(total) / options.steps


def _positive(D: Array) -> Array:
    """Mean over the heads of relu(D), (queries, keys)."""
    return np.asarray(np.maximum(D, 0).mean(axis=0))


TAM = method(
    Method(
        name="tam",
        summary="a chain of attention states, weighed by the integrated gradient of the last attention",
        reference="Yuan et al., Explaining Information Flow Inside Vision Transformers Using Markov Chain, 2021",
        options=TamOptions,
        needs=lambda _, model: Needs(attention=model.every_block, tokens_out_gradients=model.last_block),
        run=tam,
        cost=lambda options: Cost(1 + options.steps, options.steps, "backward passes end at the last attention"),
    )
)
