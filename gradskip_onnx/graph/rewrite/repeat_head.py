"""Applies the head of a model a second time, to the tokens that leave an earlier block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.layouts import axes_of
from gradskip_onnx.surgeon.node_writer import NodeWriter
from gradskip_onnx.surgeon.sorting import sort_nodes
from gradskip_onnx.types import Architecture, Block, TensorFact

from .write import Write

PREFIX = "gradskip/readout"


def readable(architecture: Architecture) -> tuple[Block, ...]:
    """The blocks whose tokens the head can read: those of the last stage; in other stages tokens have another width."""
    return tuple(block for block in architecture.blocks if block.stage == architecture.blocks[-1].stage)


def repeat_head(
    graph: gs.Graph,
    architecture: Architecture,
    facts: Mapping[str, TensorFact],
    block: Block,
    average: Average | None = None,
) -> tuple[str, dict[str, TensorFact]]:
    """Copy the nodes from the last block's tokens to the scores, reading the tokens of `block` instead; edits `graph`.

    Returns the name of the scores and the facts of all new tensors. Where the head also reads something else (earlier
    stages, in a segmentation model) the copy reads the same. With `average` the copy reads the mean of all tokens in
    the place of each of them.
    """
    last = architecture.blocks[-1]
    if block.tokens_out == last.tokens_out and average is None:
        return architecture.logits, {}
    _require_alike(block, last, facts)
    read, added = graph.tensors()[block.tokens_out], dict[str, TensorFact]()
    if average is not None:
        read, added = average(read, facts[block.tokens_out], block.output_layout)
    copies: dict[str, Any] = {last.tokens_out: read}
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


Average = Callable[[Any, TensorFact, str], tuple[Any, dict[str, TensorFact]]]


def mean_in_place_of_each(nodes: NodeWriter) -> Average:
    """A function that appends the mean over the tokens, as often as there are tokens.

    A head that norms tokens one by one and then picks or averages some gives what it would give to the mean alone.
    """

    def write(tokens: gs.Variable, fact: TensorFact, layout: str) -> tuple[gs.Variable, dict[str, TensorFact]]:
        axes = [at for at, letters in enumerate(axes_of(layout)) if set(letters) <= set("nyx")]
        if not axes or len(axes) != sum(any(letter in "nyx" for letter in letters) for letters in axes_of(layout)):
            raise UnsupportedModelError("no-readout", f"tokens laid out as {layout} have no axis to average over")
        w = Write(nodes, {tokens.name: fact})
        mean, shape = w.reduce("ReduceMean", tokens, axes), w.op("Shape", tokens, gives=np.int64)
        everywhere = w.op("Expand", mean, shape)
        dims = tuple(1 if at in axes else size for at, size in enumerate(fact.dims))
        return everywhere, {
            mean.name: replace(fact, dims=dims),
            shape.name: TensorFact((len(fact.dims),), np.dtype(np.int64)),
            everywhere.name: fact,
        }

    return write


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
