"""The private names of onnx-graphsurgeon that we use, each behind a function.

The public export copies every weight twice, and the public `values` keep what they read in memory. pyproject.toml caps
the version, and tests/surgeon/test_private_names.py checks what we expect of each name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx_graphsurgeon.exporters.onnx_exporter import OnnxExporter, update_import_domains
from onnx_graphsurgeon.ir.tensor import LazyValues, SparseValues
from onnx_graphsurgeon.logger import G_LOGGER

from gradskip_onnx.errors import ModelError
from gradskip_onnx.types import Array

# Without this, each bfloat16 weight prints a warning; element types come from the dry run instead.
G_LOGGER.severity = G_LOGGER.ERROR

Held = Literal["array", "proto", "file", "sparse"]


class _InFile(LazyValues):  # type: ignore[misc]
    """Values that `read` loads from a file; graphsurgeon itself looks for the file in the working directory."""

    def __init__(self, proto: onnx.TensorProto, read: Callable[[], Array]) -> None:
        super().__init__(proto)
        self.load = read


def held_as(constant: gs.Constant) -> Held:
    """How a constant holds its values: as an array, or not yet read, in a proto, a file or a sparse proto."""
    values = constant._values
    if isinstance(values, _InFile):
        return "file"
    if isinstance(values, SparseValues):
        return "sparse"
    return "proto" if isinstance(values, LazyValues) else "array"


def unread_proto(constant: gs.Constant) -> onnx.TensorProto | None:
    """The dense TensorProto of a constant that is not yet read; its data may be in another file. Else None."""
    proto: onnx.TensorProto | None = constant._values.tensor if held_as(constant) in ("proto", "file") else None
    return proto


def read_from(constant: gs.Constant, read: Callable[[], Array]) -> None:
    """Make an unread constant get its values from `read`, each time they are used."""
    constant._values = _InFile(constant._values.tensor, read)


def peek(constant: gs.Constant) -> Array:
    """The values of a constant; unlike `constant.values`, this does not keep them in memory."""
    values = constant._values
    return np.asarray(values.load() if isinstance(values, LazyValues) else values)


def node_proto(node: gs.Node) -> onnx.NodeProto:
    """A node as a proto, with the graphs in its attributes; ModelError for an empty list, which loses its type."""
    try:
        proto: onnx.NodeProto = OnnxExporter.export_node(node)
    except ValueError as failure:
        raise ModelError(f"node {node.name!r} ({node.op}) cannot be used: {failure}; leave it out") from failure
    return proto


def port_proto(tensor: gs.Tensor) -> onnx.ValueInfoProto:
    """An input or output of a graph as a proto; its type may be unknown."""
    info: onnx.ValueInfoProto = OnnxExporter.export_value_info_proto(tensor, False)
    return info


def tensor_proto(constant: gs.Constant) -> onnx.TensorProto:
    """A dense constant as a proto with its name; for an unread one it is that of the file, not a copy."""
    proto: onnx.TensorProto = OnnxExporter.export_tensor_proto(constant)
    return proto


def sparse_proto(constant: gs.Constant) -> onnx.SparseTensorProto:
    """A sparse constant as a proto."""
    proto: onnx.SparseTensorProto = OnnxExporter.export_sparse_tensor_proto(constant)
    return proto


def outer_tensors(body: gs.Graph) -> list[gs.Tensor]:
    """The tensors that a body of If, Loop or Scan takes from the graphs around it."""
    return list(body._foreign_tensors().values())


def detach(nodes: Sequence[gs.Node]) -> None:
    """Cut nodes off from what they read and make, in one pass over the readers of each tensor.

    Graphsurgeon's lists find a node among the readers of a tensor by comparing whole nodes, in the square of them.
    """
    gone = {id(node) for node in nodes}
    for tensor in {id(tensor): tensor for node in nodes for tensor in node.inputs}.values():
        readers = [reader for reader in tensor.outputs if id(reader) not in gone]
        list.clear(tensor.outputs)  # of the list itself: graphsurgeon's also changes what is in it
        list.extend(tensor.outputs, readers)
    for node in nodes:
        list.clear(node.inputs)
        node.outputs.clear()


def opset_imports(graph: gs.Graph) -> Sequence[onnx.OperatorSetIdProto]:
    """The operator sets of the nodes of a graph, with versions."""
    imports: Sequence[onnx.OperatorSetIdProto] = update_import_domains(graph)
    return imports
