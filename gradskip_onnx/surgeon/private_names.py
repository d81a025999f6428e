"""The names that onnx-graphsurgeon keeps to itself, behind functions of our own.

Its public export copies every weight twice and its `values` hold what they read; pyproject.toml caps its version, and
tests/surgeon/test_private_names.py says what is expected of each name here.
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

from gradskip_onnx.types import Array

# Files with bfloat16 weights would print a warning for each; types are seen in the dry run instead.
G_LOGGER.severity = G_LOGGER.ERROR

Held = Literal["array", "proto", "file", "sparse"]


class _InFile(LazyValues):  # type: ignore[misc]
    """Values that are read where they lie; graphsurgeon's own would look for the file in the working directory."""

    def __init__(self, proto: onnx.TensorProto, read: Callable[[], Array]) -> None:
        super().__init__(proto)
        self.load = read


def held_as(constant: gs.Constant) -> Held:
    """How a constant holds its values: as an array, or unread in a proto, in a file or as a sparse proto."""
    values = constant._values
    if isinstance(values, _InFile):
        return "file"
    if isinstance(values, SparseValues):
        return "sparse"
    return "proto" if isinstance(values, LazyValues) else "array"


def unread_proto(constant: gs.Constant) -> onnx.TensorProto | None:
    """The dense tensor of the file behind a constant whose values nobody has read; its data may lie elsewhere."""
    proto: onnx.TensorProto | None = constant._values.tensor if held_as(constant) in ("proto", "file") else None
    return proto


def read_from(constant: gs.Constant, read: Callable[[], Array]) -> None:
    """Let the values of an unread constant come from `read`, each time they are asked for."""
    constant._values = _InFile(constant._values.tensor, read)


def peek(constant: gs.Constant) -> Array:
    """The values; a constant that had not read them does not hold them afterwards, as `constant.values` would."""
    values = constant._values
    return np.asarray(values.load() if isinstance(values, LazyValues) else values)


def node_proto(node: gs.Node) -> onnx.NodeProto:
    """A node, with the graphs inside its attributes."""
    proto: onnx.NodeProto = OnnxExporter.export_node(node)
    return proto


def port_proto(tensor: gs.Tensor) -> onnx.ValueInfoProto:
    """An input or output of a graph; its type may be open."""
    info: onnx.ValueInfoProto = OnnxExporter.export_value_info_proto(tensor, False)
    return info


def tensor_proto(constant: gs.Constant) -> onnx.TensorProto:
    """A dense constant under its own name; an unread one is the tensor of the file itself, not a copy."""
    proto: onnx.TensorProto = OnnxExporter.export_tensor_proto(constant)
    return proto


def sparse_proto(constant: gs.Constant) -> onnx.SparseTensorProto:
    """A constant that is held sparse."""
    proto: onnx.SparseTensorProto = OnnxExporter.export_sparse_tensor_proto(constant)
    return proto


def outer_tensors(body: gs.Graph) -> list[gs.Tensor]:
    """The tensors that a body of If, Loop or Scan takes from the graphs around it."""
    return list(body._foreign_tensors().values())


def opset_imports(graph: gs.Graph) -> Sequence[onnx.OperatorSetIdProto]:
    """The operator sets that the nodes of a graph come from, and their versions."""
    imports: Sequence[onnx.OperatorSetIdProto] = update_import_domains(graph)
    return imports
