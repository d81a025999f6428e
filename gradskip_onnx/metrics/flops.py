"""FLOPs of a graph, node by node: two for each multiply-accumulate of a product, and element-wise work apart.

Operators that compute only from stored values are folded before anything runs and cost nothing. An operator that
neither table knows is listed by name: nothing is left out silently.
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
    """What one run costs. `total` counts products alone, as papers do; `elementwise` is everything else."""

    total: int
    elementwise: int
    by_op: Mapping[str, int]  # FLOPs of products, by operator
    elementwise_by_op: Mapping[str, int]
    unknown: Mapping[str, int]  # operators no rule knows, and how many nodes of each

    @property
    def giga(self) -> float:
        """`total` in the unit of the papers."""
        return self.total / 1e9


def count(model: onnx.ModelProto, shapes: Mapping[str, Shape]) -> Flops:
    """The FLOPs of the graph; `shapes` must tell the shape of every tensor but the stored ones."""
    known = dict(shapes) | {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    products: Counter[str] = Counter()
    simple: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for proto in _running(model.graph):
        node = Node.of(proto, known)
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
    """The FLOPs of the graph that really runs for a method, for a batch of images."""
    dims = fed_dims(architecture.input_dims, architecture.input_layout)
    given = {architecture.input: np.zeros((batch, *dims), _dtype(plan.model, architecture.input)), **(feeds or {})}
    return count(plan.model, seen_shapes(plan.model, plan.folder, given))


def seen_shapes(model: onnx.ModelProto, folder: Path | None, feeds: Mapping[str, Array]) -> dict[str, Shape]:
    """The shape of every tensor, from a run in which each is looked at; values are dropped as the run goes on."""
    looking = onnx.ModelProto()
    looking.CopyFrom(model)
    names = [name for node in looking.graph.node for name in node.output if name]
    looking.graph.node.extend(onnx.helper.make_node("Shape", [name], [SHAPE + name]) for name in names)
    del looking.graph.output[:], looking.graph.value_info[:]
    looking.graph.output.extend(
        onnx.helper.make_tensor_value_info(SHAPE + name, onnx.TensorProto.INT64, [None]) for name in names
    )
    session = open_session(looking, folder, "cpu", optimise=False)
    seen = session.run([SHAPE + name for name in names], feeds)
    found = {name: tuple(int(size) for size in seen[SHAPE + name]) for name in names}
    return found | {name: tuple(array.shape) for name, array in feeds.items()}


def _running(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes that follow from an input: the others are folded when the file is opened."""
    follow = {tensor.name for tensor in graph.input}
    found = []
    for node in graph.node:  # ONNX wants them sorted
        if any(name in follow for name in node.input) or _holds_graph(node):
            follow.update(node.output)
            found.append(node)
    return found


def _holds_graph(node: onnx.NodeProto) -> bool:
    """Control flow may read what is not among its inputs."""
    return any(attribute.type in (attribute.GRAPH, attribute.GRAPHS) for attribute in node.attribute)


def _dtype(model: onnx.ModelProto, name: str) -> np.dtype[np.generic]:
    kinds = {tensor.name: tensor.type.tensor_type.elem_type for tensor in model.graph.input}
    return onnx.helper.tensor_dtype_to_np_dtype(kinds[name])
