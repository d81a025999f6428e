"""Applies the head of a model a second time, to the tokens that leave an earlier block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_graphsurgeon as gs

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.surgeon.sorting import sort_nodes
from gradskip_onnx.types import Architecture, Block, TensorFact

PREFIX = "gradskip/readout"


def readable(architecture: Architecture) -> tuple[Block, ...]:
    """The blocks whose tokens the head can read: those of the last stage; in other stages tokens have another width."""
    return tuple(block for block in architecture.blocks if block.stage == architecture.blocks[-1].stage)


def repeat_head(
    graph: gs.Graph, architecture: Architecture, facts: Mapping[str, TensorFact], block: Block
) -> tuple[str, dict[str, TensorFact]]:
    """Copy the nodes from the last block's tokens to the scores, reading the tokens of `block` instead; edits `graph`.

    Returns the name of the scores and the facts of all new tensors. Where the head also reads something else (earlier
    stages, in a segmentation model) the copy reads the same.
    """
    last = architecture.blocks[-1]
    if block.tokens_out == last.tokens_out:
        return architecture.logits, {}
    _require_alike(block, last, facts)
    tensors = graph.tensors()
    copies: dict[str, Any] = {last.tokens_out: tensors[block.tokens_out]}
    added: dict[str, TensorFact] = {}
    nodes = []
    for node in _head(graph, last.tokens_out, architecture.logits):
        outputs = []
        for tensor in node.outputs:
            name = f"{PREFIX}{block.index}/{tensor.name}"
            copies[tensor.name] = gs.Variable(name, tensor.dtype, tensor.shape)
            outputs.append(copies[tensor.name])
            if tensor.name in facts:
                added[name] = facts[tensor.name]
        inputs = [copies.get(tensor.name, tensor) for tensor in node.inputs]
        name = f"{PREFIX}{block.index}/{node.name}"
        nodes.append(gs.Node(node.op, name, dict(node.attrs), inputs, outputs, domain=node.domain))
    graph.nodes.extend(nodes)
    return copies[architecture.logits].name, added


def _head(graph: gs.Graph, start: str, end: str) -> list[Any]:
    """The nodes on any path from `start` to `end`, in topological order."""
    reached, below = {start}, []
    for node in sort_nodes(graph).nodes:
        if any(tensor.name in reached for tensor in node.inputs):
            reached.update(tensor.name for tensor in node.outputs)
            below.append(node)
    needed, found = {end}, []
    for node in reversed(below):
        if any(tensor.name in needed for tensor in node.outputs):
            needed.update(tensor.name for tensor in node.inputs)
            found.append(node)
    return found[::-1]


def _require_alike(block: Block, last: Block, facts: Mapping[str, TensorFact]) -> None:
    here, there = facts[block.tokens_out], facts[last.tokens_out]
    if (here, block.output_layout) != (there, last.output_layout):
        raise UnsupportedModelError(
            "no-readout",
            f"the head reads {there.dims} ({last.output_layout}) and block {block.index} gives {here.dims} "
            f"({block.output_layout}), so its tokens cannot be read out; use another method",
        )
