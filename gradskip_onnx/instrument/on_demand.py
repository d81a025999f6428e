"""Takes large tensors out of the outputs of a pass: each is made by a model of its own when a method asks for it.

Attention and its gradients are quadratic in the tokens; those of all blocks take most of the memory of a method that
reads them. Each is made by a few nodes from small tensors, which the pass outputs in its place.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from gradskip_onnx.graph.read.assemble import frame, stored
from gradskip_onnx.surgeon.element_types import onnx_type
from gradskip_onnx.surgeon.private_names import node_proto
from gradskip_onnx.types import Maker, TensorFact

from . import chains
from .chains import bytes_of, chain, sources


def makers_of_large(graph: gs.Graph, outputs: Sequence[str], facts: Mapping[str, TensorFact]) -> dict[str, Maker]:
    """A maker of each large tensor among `outputs` that follows from small ones; none if together they are small."""
    tensors = graph.tensors()
    found = {
        name: nodes
        for name in dict.fromkeys(outputs)
        if bytes_of(tensors[name], facts) >= chains.LARGE and (nodes := chain(tensors[name], facts))
    }
    if sum(bytes_of(tensors[name], facts) for name in found) <= chains.HELD:
        return {}
    return {name: _maker(graph, tensors[name], nodes, facts) for name, nodes in found.items()}


def _maker(graph: gs.Graph, made: Any, nodes: list[Any], facts: Mapping[str, TensorFact]) -> Maker:
    read = sources(nodes)
    constants = {tensor.name: tensor for node in nodes for tensor in node.inputs if isinstance(tensor, gs.Constant)}
    model = frame(graph)
    model.graph.name = "maker"
    model.graph.node.extend(node_proto(node) for node in nodes)
    model.graph.initializer.extend(stored(tensor) for tensor in constants.values())
    model.graph.input.extend(_port(tensor, facts) for tensor in read)
    model.graph.output.append(_port(made, facts))
    return Maker(b64encode(model.SerializeToString()).decode(), tuple(tensor.name for tensor in read))


def _port(tensor: Any, facts: Mapping[str, TensorFact]) -> onnx.ValueInfoProto:
    """A tensor as an input or output of any size."""
    fact = facts.get(tensor.name)
    dtype, dims = (tensor.dtype, tensor.shape) if fact is None else (fact.dtype, fact.dims)
    return onnx.helper.make_tensor_value_info(tensor.name, onnx_type(dtype), [None] * len(dims))
