"""Attention flow: maximum flow from the tokens that the head reads to each patch, attention being the capacities."""

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

UNIT = 1 << 30  # the solver takes int32 capacities: a capacity of 1 is this, the largest power of two in that type


@dataclass(frozen=True, slots=True)
class AttentionFlowOptions:
    heads: str = option("mean", "how the heads become one", choices=tuple(FUSIONS))
    blocks: int = option(0, "how many blocks take part, counted from the last; 0: all", low=0)


def attention_flow(
    trace: Trace, architecture: Architecture, options: AttentionFlowOptions, passes: Passes
) -> Relevance:
    """Maximum flow from the source to each patch at the input of the first block, divided by the sum over the patches.

    Nodes are the tokens between blocks. The edge from token i after block l to token j before it has the capacity
    Â^l_ij of rollout. Edges from the source to the tokens that the head reads have capacities that sum to 1.
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


def _capacities(block: BlockAttention, heads: str) -> Array:
    """Â = Ā + I with rows divided by their sums: attention and skip path, (N, N)."""
    fuse, A = FUSIONS[heads], block.attention
    block.sums(fuse, A)  # checks shape and values
    matrix = fuse(A.astype(np.float64)) + np.eye(block.count)
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def _to_each_token(row: Array, matrices: list[Array]) -> Array:
    """Maximum flow to each token before the first block, (N,); `matrices` are in the order of the blocks."""
    csgraph, sparse = import_optional("scipy.sparse.csgraph"), import_optional("scipy.sparse")
    count, layers = len(row), len(matrices)
    source = (layers + 1) * count
    above, below, capacity = [np.full(count, source)], [layers * count + np.arange(count)], [row]
    for layer, matrix in enumerate(matrices):
        i, j = np.indices(matrix.shape)
        above.append((layer + 1) * count + i.ravel())
        below.append(layer * count + j.ravel())
        capacity.append(matrix.ravel())
    units = np.rint(np.concatenate(capacity) * UNIT).astype(np.int32)
    edges = (np.concatenate(above), np.concatenate(below))
    graph = sparse.csr_matrix((units, edges), shape=(source + 1, source + 1))
    graph.eliminate_zeros()
    return np.array([csgraph.maximum_flow(graph, source, token).flow_value / UNIT for token in range(count)])


def refuses(architecture: Architecture) -> str:
    """Refuse models with stages, reduced keys or windows: flow is defined on full attention matrices of one grid."""
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
