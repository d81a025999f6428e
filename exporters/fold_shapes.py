"""Folds the shape arithmetic of a traced graph into constants, by comparing two dry runs.

Exporters write the shape of a Reshape with a dynamic batch as Shape, Gather, Unsqueeze, Concat. With height and width
fixed, such an operand either never changes or changes in the batch entry alone; then it is a constant with one -1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from gradskip_onnx.graph.read.copies import take_out_copies
from gradskip_onnx.graph.read.forward import absorb_constants
from gradskip_onnx.runtime.session import open_session
from gradskip_onnx.surgeon.element_types import numpy_type
from gradskip_onnx.types import Array

BATCHES = (2, 5)  # batch sizes of the dry runs; not 1, because it broadcasts
SHAPE = "tidy/shape/"

# Operator -> first position of its operands that are shapes, axes or bounds, not data.
SHAPE_OPERANDS = {"Reshape": 1, "Expand": 1, "Slice": 1, "Unsqueeze": 1, "Squeeze": 1, "Split": 1, "Tile": 1, "Pad": 1}


def tidy(model: onnx.ModelProto, folder: Path, images: tuple[int, ...], logits: tuple[int, ...]) -> onnx.ModelProto:
    """`model` without constant nodes, copies and constant shape arithmetic; weights in `folder` stay there."""
    graph = gs.import_onnx(model)
    absorb_constants(graph)
    take_out_copies(graph)
    _fold_operands(graph, _observed(model, graph, folder, images))
    for tensor, dims in ((graph.inputs[0], images), (graph.outputs[0], logits)):
        tensor.shape = ["batch", *dims[1:]]
    graph.cleanup(remove_unused_graph_inputs=False).toposort()
    tidied: onnx.ModelProto = gs.export_onnx(graph, do_type_check=False)
    tidied.ir_version = model.ir_version
    tidied.producer_name, tidied.producer_version = model.producer_name, model.producer_version
    _strip_notes(tidied)
    return tidied


def _operands(graph: gs.Graph) -> list[tuple[gs.Node, int]]:
    """Nodes and positions of computed operands of SHAPE_OPERANDS."""
    return [
        (node, position)
        for node in graph.nodes
        for position in range(SHAPE_OPERANDS.get(node.op, len(node.inputs)), len(node.inputs))
        if isinstance(node.inputs[position], gs.Variable) and node.inputs[position].name
    ]


def _witness(node: gs.Node, position: int) -> str:
    """The tensor to observe for an operand: itself or, for a Reshape, the resulting shape, which has no 0 or -1."""
    return SHAPE + str(node.outputs[0].name) if node.op == "Reshape" else str(node.inputs[position].name)


def _observed(model: onnx.ModelProto, graph: gs.Graph, folder: Path, images: tuple[int, ...]) -> list[dict[str, Array]]:
    """The values of all witnesses, by name, for each of BATCHES."""
    names = sorted({_witness(node, position) for node, position in _operands(graph)})
    if not names:
        return [{}, {}]
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    shapes = [name for name in names if name.startswith(SHAPE)]
    probe.graph.node.extend(onnx.helper.make_node("Shape", [name.removeprefix(SHAPE)], [name]) for name in shapes)
    probe.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    session = open_session(probe, folder, "cpu")
    dtype = numpy_type(model.graph.input[0].type.tensor_type.elem_type)
    feeds = ({model.graph.input[0].name: np.zeros((batch, *images[1:]), dtype)} for batch in BATCHES)
    return [session.run(names, feed) for feed in feeds]


def _fold_operands(graph: gs.Graph, observed: list[dict[str, Array]]) -> None:
    for number, (node, position) in enumerate(_operands(graph)):
        name = _witness(node, position)
        value = _constant_value(observed[0][name], observed[1][name], infer=node.op == "Reshape")
        if value is not None:
            node.inputs[position] = gs.Constant(f"settled_{number}", value)


def _constant_value(first: Array, second: Array, infer: bool) -> Array | None:
    """A value of an operand for all batch sizes, or None; with `infer` one entry that changes becomes -1."""
    if first.shape != second.shape:
        return None
    changing = first != second
    if not changing.any():
        return first
    if infer and changing.sum() == 1:
        return np.where(changing, np.int64(-1), first)
    return None


def _strip_notes(model: onnx.ModelProto) -> None:
    """Remove the stack traces and module paths that exporters write: they are private and enlarge the file."""
    del model.metadata_props[:]
    parts = (model.graph, *model.graph.node, *model.graph.initializer, *model.graph.input, *model.graph.output)
    for part in (*parts, *model.graph.value_info):
        part.doc_string = ""
        del part.metadata_props[:]
