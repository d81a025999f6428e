"""Attention flow: how much could flow from the tokens that the head reads to each patch, attention being the pipes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradskip_onnx.autodiff.scores.seeds import logit
from gradskip_onnx.imports.optional import import_optional
from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.passes import Passes
from gradskip_onnx.methods.table import Cost, Method, method
from gradskip_onnx.types import Architecture, Array, Needs, Relevance, Trace, read_only

from .all_tokens import FUSIONS, BlockAttention
from .readout import start

UNIT = 1 << 30  # capacities are whole numbers for the solver: 1 becomes this, the largest power of two in 32 bits


@dataclass(frozen=True, slots=True)
class AttentionFlowOptions:
    heads: str = option("mean", "how the heads become one", choices=tuple(FUSIONS))
    blocks: int = option(0, "how many blocks take part, counted from the last; 0: all", low=0)


def attention_flow(
    trace: Trace, architecture: Architecture, options: AttentionFlowOptions, passes: Passes
) -> Relevance:
    """Maximum flow from the output to each patch of the lowest layer, divided by the sum over the patches.

    Nodes are the tokens of each layer; the edge from token i above block l to token j below it has the capacity Â^l_ij
    of rollout. The source feeds the tokens that the head reads, 1 in all.
    """
    blocks = architecture.blocks[-options.blocks :] if options.blocks else architecture.blocks
    row = start(trace, architecture, passes)
    matrices = [_capacities(BlockAttention(trace, block), options.heads) for block in blocks]
    flows = BlockAttention(trace, blocks[0]).patches(_to_each_token(row, matrices))
    inward = BlockAttention(trace, blocks[0]).patches(np.minimum(matrices[0].sum(axis=0), 1.0))
    return Relevance(
        read_only((flows / flows.sum()).reshape(blocks[0].grid)),
        checks={
            "tokens_read": float((row > 0).sum()),
            "bound_by_patch": float(np.isclose(flows, inward, atol=1e-6).mean()),
        },
    )


def _capacities(whole: BlockAttention, heads: str) -> Array:
    """Â: attention and skip path, rows divided by their sums."""
    fuse = FUSIONS[heads]
    whole.sums(fuse, whole.attention)  # checks shape and values
    matrix = fuse(whole.attention.astype(np.float64)) + np.eye(whole.count)
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def _to_each_token(row: Array, matrices: list[Array]) -> Array:
    """Maximum flow to each token of the lowest layer; `matrices` from the lowest block up."""
    csgraph, sparse = import_optional("scipy.sparse.csgraph"), import_optional("scipy.sparse")
    count, layers = len(row), len(matrices)
    source = (layers + 1) * count
    above, below, room = [np.full(count, source)], [layers * count + np.arange(count)], [row]
    for layer, matrix in enumerate(matrices):
        i, j = np.indices(matrix.shape)
        above.append((layer + 1) * count + i.ravel())
        below.append(layer * count + j.ravel())
        room.append(matrix.ravel())
    whole = np.rint(np.concatenate(room) * UNIT).astype(np.int32)
    edges = (np.concatenate(above), np.concatenate(below))
    graph = sparse.csr_matrix((whole, edges), shape=(source + 1, source + 1))
    graph.eliminate_zeros()
    return np.array([csgraph.maximum_flow(graph, source, token).flow_value / UNIT for token in range(count)])


def refuses(architecture: Architecture) -> str:
    """One maximum flow for each patch over all edges is within reach of a plain transformer only."""
    blocks = architecture.blocks
    if len({block.grid for block in blocks}) > 1:
        return "its token grid changes between stages, and flow is defined on one; rollout is the substitute"
    if any(block.reduction > 1 or block.windows for block in blocks):
        return (
            "its attention is reduced or in windows, and flow is defined on whole matrices; rollout is the substitute"
        )
    return ""


ATTENTION_FLOW = method(
    Method(
        name="attention-flow",
        summary="maximum flow from the class token to each patch through all attention",
        reference="Abnar and Zuidema, Quantifying Attention Flow in Transformers, ACL 2020",
        options=AttentionFlowOptions,
        needs=lambda _, model: Needs(attention=model.every_block, tokens_out_gradients=model.last_block),
        run=attention_flow,
        cost=lambda _: Cost(1, 0, "and a maximum flow problem for each patch on the CPU"),
        seed=lambda _: logit,
        refuses=refuses,
    )
)
