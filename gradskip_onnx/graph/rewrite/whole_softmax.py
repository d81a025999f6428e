"""Undoes the flattening around a Softmax: x -> (rows, last axis) -> Softmax -> the shape of x is Softmax of x.

Before opset 13 Softmax itself flattened its input to two axes. onnx's version converter keeps that meaning by a
Flatten in front and a Reshape behind, wherever it does not know that the axis is the last: attention loses its heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_graphsurgeon as gs

from gradskip_onnx.graph.prove.dry_run import DryRun
from gradskip_onnx.graph.prove.partial_model import partial_model
from gradskip_onnx.graph.prove.proofs import difference, rounding
from gradskip_onnx.types import Proof

FLATTENERS = ("Flatten", "Reshape")
LAST_OF_TWO = (1, -1)


def needs_whole_softmax(graph: gs.Graph) -> bool:
    """Whether any Softmax stands between two nodes that may flatten and restore its input."""
    return any(_surroundings(node) for node in graph.nodes)


def make_softmax_whole(graph: gs.Graph, before: DryRun) -> tuple[gs.Graph, list[Proof]]:
    """A copy of `graph` with such a Softmax on the unflattened tensor, and a proof for each.

    Shapes in the dry run of `graph` decide: the flattened tensor has two axes, the second is the last of the original,
    and the result has the original's shape.
    """
    graph = graph.copy()
    restored: list[str] = []
    kept = {tensor.name for tensor in graph.outputs}
    for node in graph.nodes:
        around = _surroundings(node)
        if around is None or node.outputs[0].name in kept:
            continue
        source, flat, result = around[0].inputs[0], node.inputs[0], around[1].outputs[0]
        if _undoes(before.shapes, source.name, flat.name, result.name):
            around[1].outputs.clear()
            node.inputs, node.outputs = [source], [result]
            node.attrs["axis"] = -1
            restored.append(result.name)
    graph.cleanup().toposort()
    return graph, _prove(graph, before, restored)


def _surroundings(node: Any) -> tuple[Any, Any] | None:
    """The node before and the node behind a Softmax over the second of two axes, if they can be what is undone."""
    if node.op != "Softmax" or node.attrs.get("axis", -1) not in LAST_OF_TWO:
        return None
    above, below = node.inputs[0].inputs, node.outputs[0].outputs
    if len(above) != 1 or len(below) != 1:
        return None
    fits = above[0].op in FLATTENERS and below[0].op == "Reshape" and below[0].inputs[0] is node.outputs[0]
    return (above[0], below[0]) if fits else None


def _undoes(shapes: Mapping[str, tuple[int, ...]], source: str, flat: str, result: str) -> bool:
    if not {source, flat, result} <= shapes.keys():
        return False
    one, two = shapes[source], shapes[flat]
    return len(one) > len(two) == 2 and one[-1] == two[-1] and shapes[result] == one


def _prove(graph: gs.Graph, before: DryRun, restored: list[str]) -> list[Proof]:
    """Compare each result with that of the graph before."""
    if not restored:
        return []
    after = partial_model(graph, before.model.folder, before.model.weights)
    feeds = {before.image.name: before.values[before.image.name]}
    old, new = (model.open(restored).run(restored, feeds) for model in (before.model, after))
    claim = "a softmax over the last axis gives what the flattened one gave"
    return [Proof(claim, name, difference(new[name], old[name]), rounding(old[name].dtype)) for name in restored]
