"""A graph as a model that holds its weights; each is copied once, where graphsurgeon's own export copies twice."""

from __future__ import annotations

import onnx
import onnx_graphsurgeon as gs
from onnx_graphsurgeon.exporters.onnx_exporter import OnnxExporter, update_import_domains
from onnx_graphsurgeon.ir.tensor import LazyValues, SparseValues


def assemble(graph: gs.Graph) -> onnx.ModelProto:
    """A sorted graph, written down; of the tensors between the nodes nothing is said."""
    model = frame(graph)
    model.producer_name, model.producer_version = graph.producer_name or "", graph.producer_version or ""
    written = model.graph
    written.name = graph.name or "graph"
    written.node.extend(OnnxExporter.export_node(node) for node in graph.nodes)
    written.input.extend(port(tensor) for tensor in graph.inputs)
    written.output.extend(port(tensor) for tensor in graph.outputs)
    for tensor in graph.tensors().values():
        if isinstance(tensor, gs.Constant) and isinstance(tensor._values, SparseValues):
            written.sparse_initializer.append(OnnxExporter.export_sparse_tensor_proto(tensor))
        elif isinstance(tensor, gs.Constant):
            written.initializer.append(stored(tensor))
    return model


def frame(graph: gs.Graph) -> onnx.ModelProto:
    """The versions of a model, and no graph."""
    model = onnx.ModelProto(ir_version=graph.ir_version or onnx.IR_VERSION)
    model.opset_import.extend(update_import_domains(graph))
    return model


def port(tensor: gs.Tensor) -> onnx.ValueInfoProto:
    """An input or output; its type may be open."""
    info: onnx.ValueInfoProto = OnnxExporter.export_value_info_proto(tensor, False)
    return info


def stored(tensor: gs.Constant) -> onnx.TensorProto:
    """A dense constant under its own name; one that was only renamed still holds the tensor of the file."""
    proto = tensor._values.tensor if isinstance(tensor._values, LazyValues) else None
    if proto is None or proto.name == tensor.name:
        exported: onnx.TensorProto = OnnxExporter.export_tensor_proto(tensor)
        return exported
    renamed = onnx.TensorProto()
    renamed.CopyFrom(proto)
    renamed.name = tensor.name
    return renamed
