"""FLOPs of a graph: two per multiply-accumulate of a product; other operations are counted separately.

Nodes that depend only on stored values are folded before a run and cost nothing. Operators without a rule are listed by
name in the result: nothing is left out silently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from gradskip_onnx.graph.layouts import fed_dims
from gradskip_onnx.runtime.session import open_session
from gradskip_onnx.types import Architecture, Array, Instrumented

from .flop_rules import FREE, PRODUCTS, SIMPLE, Node, Shape

SHAPE = "gradskip/shape/"


@dataclass(frozen=True, slots=True)
class Flops:
    """The cost of one run; `total` counts products alone, as papers do, `elementwise` everything else."""

    total: int
    elementwise: int
    by_op: Mapping[str, int]  # FLOPs of products, by operator
    elementwise_by_op: Mapping[str, int]
    unknown: Mapping[str, int]  # number of nodes by operator, for operators without a rule

    @property
    def giga(self) -> float:
        """`total` in GFLOPs, the unit of papers."""
        return self.total / 1e9


def count(model: onnx.ModelProto, shapes: Mapping[str, Shape]) -> Flops:
    """The FLOPs of the graph; `shapes` holds the shape of every tensor that is not an initializer."""
    all_shapes = dict(shapes) | {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    products: Counter[str] = Counter()
    simple: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for proto in _running(model.graph):
        node = Node.of(proto, all_shapes)
        if node.key in PRODUCTS:
            products[node.key] += 2 * PRODUCTS[node.key](node)
        if node.key in SIMPLE:
            simple[node.key] += SIMPLE[node.key](node)
        elif node.key not in PRODUCTS and node.key not in FREE:
            unknown[node.key] += 1
    return Flops(products.total(), simple.total(), dict(products), dict(simple), dict(unknown))


def of_plan(
    plan: Instrumented, architecture: Architecture, batch: int = 1, feeds: Mapping[str, Array] | None = None
) -> Flops:
    """The FLOPs of an instrumented model for a batch of images."""
    dims = fed_dims(architecture.input_dims, architecture.input_layout)
    inputs = {architecture.input: np.zeros((batch, *dims), _dtype(plan.model, architecture.input)), **(feeds or {})}
    return count(plan.model, measured_shapes(plan.model, plan.folder, inputs))


def measured_shapes(model: onnx.ModelProto, folder: Path | None, feeds: Mapping[str, Array]) -> dict[str, Shape]:
    """The shape of every tensor, from a run with a Shape node on each; the values themselves are not kept."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    names = [name for node in probe.graph.node for name in node.output if name]
    probe.graph.node.extend(onnx.helper.make_node("Shape", [name], [SHAPE + name]) for name in names)
    del probe.graph.output[:], probe.graph.value_info[:]
    probe.graph.output.extend(
        onnx.helper.make_tensor_value_info(SHAPE + name, onnx.TensorProto.INT64, [None]) for name in names
    )
    session = open_session(probe, folder, "cpu", optimise=False)
    outputs = session.run([SHAPE + name for name in names], feeds)
    found = {name: tuple(int(size) for size in outputs[SHAPE + name]) for name in names}
    return found | {name: tuple(array.shape) for name, array in feeds.items()}


def _running(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes that depend on an input; ONNX Runtime folds the others when it opens the file."""
    dependent = {tensor.name for tensor in graph.input}
    found = []
    for node in graph.node:  # in topological order, as ONNX requires
        if any(name in dependent for name in node.input) or _holds_graph(node):
            dependent.update(node.output)
            found.append(node)
    return found


def _holds_graph(node: onnx.NodeProto) -> bool:
    """Whether a node is control flow, whose graphs may read tensors that are not among its inputs."""
    return any(attribute.type in (attribute.GRAPH, attribute.GRAPHS) for attribute in node.attribute)


def _dtype(model: onnx.ModelProto, name: str) -> np.dtype[np.generic]:
    kinds = {tensor.name: tensor.type.tensor_type.elem_type for tensor in model.graph.input}
    return onnx.helper.tensor_dtype_to_np_dtype(kinds[name])
