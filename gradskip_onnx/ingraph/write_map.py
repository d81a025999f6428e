"""Writes the propagation of a method behind its plan: nodes that read what the plan shows, and one output, the map."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from gradskip_onnx.autodiff.emit import Emit
from gradskip_onnx.errors import InputError
from gradskip_onnx.graph.architecture import Reading
from gradskip_onnx.graph.read.assemble import assemble
from gradskip_onnx.methods import MethodChoice
from gradskip_onnx.surgeon.element_types import numpy_type
from gradskip_onnx.surgeon.node_writer import PREFIX
from gradskip_onnx.surgeon.sorting import sort_nodes
from gradskip_onnx.types import Dims, Instrumented, TensorFact

from .made import inputs_of, model_of
from .table import INGRAPH
from .traced import Traced
from .view import View, show


@dataclass(frozen=True, slots=True, eq=False)
class MapGraph:
    """The nodes and constants behind a plan."""

    nodes: tuple[onnx.NodeProto, ...]
    constants: tuple[onnx.TensorProto, ...]
    relevance: str  # the map, float32 (B, H, W) or (B, rows, columns)
    dims: Dims  # of the map


def require_writable(choice: MethodChoice) -> None:
    """Raise InputError for a method that cannot be computed inside a graph."""
    if choice.row.name not in INGRAPH:
        known = ", ".join(sorted(INGRAPH))
        raise InputError(f"method {choice.row.name} cannot be written into a graph; those that can: {known}")


def write_map(plan: Instrumented, reading: Reading, opset: int, choice: MethodChoice, view: View) -> MapGraph:
    """The operators that make the map of a method of the tensors that its plan shows."""
    require_writable(choice)
    facts = shown_facts(plan, reading)
    inputs = [gs.Variable(name, fact.dtype, list(fact.dims)) for name, fact in facts.items()]
    graph = gs.Graph(inputs=inputs, opset=opset)
    emit = Emit(graph, MappingProxyType(facts), opset, f"{PREFIX}map/")
    scores = INGRAPH[choice.row.name](Traced(emit, reading.architecture, plan), choice.options)
    found = show(scores, reading.architecture, view)
    graph.outputs = [found.tensor]
    written = assemble(sort_nodes(graph.cleanup())).graph
    return MapGraph(tuple(written.node), tuple(written.initializer), found.name, found.dims)


def shown_facts(plan: Instrumented, reading: Reading) -> dict[str, TensorFact]:
    """Shapes and types of what a plan shows, and of what makers read: a gradient has the shape of its tensor."""
    architecture = reading.architecture
    models = [model_of(maker) for maker in plan.makers.values()]
    outputs = [output for model in (plan.model, *models) for output in model.graph.output]
    types = {output.name: numpy_type(output.type.tensor_type.elem_type) for output in outputs}
    facts = {name: fact for model in models for name, fact in inputs_of(model).items()}
    facts |= {name: reading.facts[name] for name in (architecture.input, architecture.logits)}
    scores = facts[architecture.logits].dims
    if plan.target_output is not None:
        facts[plan.target_output] = TensorFact(scores[:1], np.dtype(np.int64))
    if plan.region_input is not None:
        facts[plan.region_input] = TensorFact((None, *scores[2:]), np.dtype(np.float32))
    for part in (plan.values, plan.gradients, plan.readouts, plan.relevances, plan.unsigned):
        facts |= {shown: TensorFact(reading.facts[name].dims, types[shown]) for name, shown in part.items()}
    return facts
