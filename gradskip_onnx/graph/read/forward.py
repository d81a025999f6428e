"""The forward graph in the form every later stage reads: sorted, pruned, no copies, constants as constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnx_graphsurgeon as gs

from gradskip_onnx.errors import ModelError, UnsupportedModelError
from gradskip_onnx.model_file.mapped_weights import weight_location
from gradskip_onnx.surgeon.node_writer import replace_reads
from gradskip_onnx.surgeon.private_names import read_from, unread_proto
from gradskip_onnx.surgeon.sorting import sort_nodes
from gradskip_onnx.types import Array

from .copies import take_out_copies
from .names import name_apart


def forward_graph(model: onnx.ModelProto, outputs: Sequence[str] | None = None, folder: Path | None = None) -> gs.Graph:
    """Import `model` as a new graph, reduced to what its outputs (or the ones named) depend on."""
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    try:
        graph = gs.import_onnx(model)
    except (ValueError, KeyError, IndexError, gs.OnnxGraphSurgeonException) as failure:
        raise ModelError(f"the graph cannot be read: {str(failure).strip().splitlines()[0]}") from failure
    for tensor in graph.tensors().values():
        proto = unread_proto(tensor) if isinstance(tensor, gs.Constant) else None
        place = None if proto is None else weight_location(proto)
        if place is not None:
            read_from(tensor, partial(place.array, folder))
    if outputs is not None:
        graph.outputs = [tensor for tensor in graph.outputs if tensor.name in outputs]
    absorb_constants(graph)
    take_out_copies(graph)
    # not in bodies: a Loop hands its body a number and a condition, whether they are read or not
    sort_nodes(graph.cleanup(remove_unused_graph_inputs=True, recurse_subgraphs=False))
    name_apart(graph)
    if not graph.inputs:
        raise UnsupportedModelError("no-image-input", "the outputs of the graph depend on none of its inputs")
    return graph


def absorb_constants(graph: gs.Graph) -> None:
    """Turn Constant nodes into stored tensors, so that `gs.Constant` is the only form a constant has."""
    for node in graph.nodes:
        if node.op == "Constant":
            tensor = node.outputs[0]
            node.outputs.clear()
            tensor.to_constant(_stored_value(node))


def _stored_value(node: gs.Node) -> Array:
    ((key, value),) = node.attrs.items()
    if key == "value":
        return np.asarray(value.values)
    kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    if key not in kinds:
        raise UnsupportedModelError(
            "constant-kind", f"node {node.name!r} (Constant) stores {key}; tensors are expected"
        )
    return np.asarray(value, dtype=kinds[key])


def share_copies(graph: gs.Graph) -> gs.Graph:
    """Let all readers of a quantised tensor read one dequantised copy of it.

    Quantisers write a copy for each reader; the residual stream would fall apart into copies, each with only a part
    of the gradient.
    """
    first: dict[tuple[Any, ...], Any] = {}
    kept = {tensor.name for tensor in graph.outputs}
    for node in graph.nodes:
        if node.op == "DequantizeLinear":
            key = (*(tensor.name for tensor in node.inputs), repr(sorted(node.attrs.items())))
            copy, shared = node.outputs[0], first.setdefault(key, node.outputs[0])
            if copy is not shared and copy.name not in kept:
                replace_reads(copy, shared)
                node.outputs.clear()
    return sort_nodes(graph.cleanup())


def fold(graph: gs.Graph, values: Mapping[str, Array]) -> gs.Graph:
    """Replace the tensors in `values` by constants and drop the nodes that computed them.

    A stored tensor that is dequantised stays as it is: ONNX Runtime runs the nodes around it on the integers.
    """
    outputs = {tensor.name for tensor in graph.outputs}
    for node in graph.nodes:
        names = [tensor.name for tensor in node.outputs]
        if node.op == "DequantizeLinear" or not names:
            continue
        if all(name in values and name not in outputs for name in names):
            tensors = list(node.outputs)
            node.outputs.clear()
            for tensor in tensors:
                tensor.to_constant(values[tensor.name])
    return sort_nodes(graph.cleanup())
