"""Writes a graph as a model with its weights; copies each weight once, where graphsurgeon's own export copies twice."""

from __future__ import annotations

import onnx
import onnx_graphsurgeon as gs

from gradskip_onnx.surgeon.private_names import (
    held_as,
    node_proto,
    opset_imports,
    port_proto,
    sparse_proto,
    tensor_proto,
    unread_proto,
)


def assemble(graph: gs.Graph) -> onnx.ModelProto:
    """Write a sorted graph as a model; types and shapes of inner tensors are left out."""
    model = frame(graph)
    model.producer_name, model.producer_version = graph.producer_name or "", graph.producer_version or ""
    written = model.graph
    written.name = graph.name or "graph"
    written.node.extend(node_proto(node) for node in graph.nodes)
    written.input.extend(port_proto(tensor) for tensor in graph.inputs)
    written.output.extend(port_proto(tensor) for tensor in graph.outputs)
    for tensor in graph.tensors().values():
        if isinstance(tensor, gs.Constant) and held_as(tensor) == "sparse":
            written.sparse_initializer.append(sparse_proto(tensor))
        elif isinstance(tensor, gs.Constant):
            written.initializer.append(stored(tensor))
    return model


def frame(graph: gs.Graph) -> onnx.ModelProto:
    """A model with the IR version and the opsets of `graph`, and no graph."""
    model = onnx.ModelProto(ir_version=graph.ir_version or onnx.IR_VERSION)
    model.opset_import.extend(opset_imports(graph))
    return model


def stored(tensor: gs.Constant) -> onnx.TensorProto:
    """A dense constant as a tensor under its present name; the tensor of the file may have an older one."""
    proto = unread_proto(tensor)
    if proto is None or proto.name == tensor.name:
        return tensor_proto(tensor)
    renamed = onnx.TensorProto()
    renamed.CopyFrom(proto)
    renamed.name = tensor.name
    return renamed
