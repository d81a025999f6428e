"""Large tensors inside the graph: made by a copy of their nodes when a method arrives at them, and not held before."""

from __future__ import annotations

from base64 import b64decode

import onnx
import onnx_graphsurgeon as gs

from gradskip_onnx.autodiff.emit import Emit
from gradskip_onnx.autodiff.sym import Sym
from gradskip_onnx.instrument.recompute import copy_late
from gradskip_onnx.surgeon.element_types import numpy_type
from gradskip_onnx.surgeon.node_writer import PREFIX, NodeWriter
from gradskip_onnx.types import Maker, TensorFact


def made(emit: Emit, name: str, maker: Maker, after: Sym) -> Sym:
    """The tensor `name` of the model, by the nodes of its maker, which wait for `after`."""
    model, fact = model_of(maker), emit.facts[name]
    write = NodeWriter(emit.graph, emit.opset, f"{PREFIX}map/again/")
    last = copy_late(write, gs.import_onnx(model).nodes, after.tensor, inputs_of(model))
    return Sym(emit, last, fact.dtype, fact.dims)


def model_of(maker: Maker) -> onnx.ModelProto:
    """The model of a maker, which plans keep as text."""
    model = onnx.ModelProto()
    model.ParseFromString(b64decode(maker.model))
    return model


def inputs_of(model: onnx.ModelProto) -> dict[str, TensorFact]:
    """What a maker reads; its sizes are left open."""
    ports = {port.name: port.type.tensor_type for port in model.graph.input}
    return {name: TensorFact((None,) * len(kind.shape.dim), numpy_type(kind.elem_type)) for name, kind in ports.items()}
