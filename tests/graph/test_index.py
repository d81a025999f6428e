"""Paths in a graph, against a walk that follows every edge one by one."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from gradskip_onnx.graph.index import Index, index
from gradskip_onnx.graph.read.forward import forward_graph
from tests.support.models import Vit, vit

WRITTEN_OUT = Vit(depth=1, decomposed_norm=True, opset=13, masked=True)
SHAPES = [
    pytest.param(Vit(depth=1), id="plain"),
    pytest.param(WRITTEN_OUT, id="written out", marks=pytest.mark.slow),  # three times the nodes, walked for each pair
]
KINDS = ("MatMul", "Gemm")


@pytest.fixture(params=SHAPES, scope="module")
def lookup(request: pytest.FixtureRequest) -> Index:
    graph = forward_graph(vit(request.param))
    return index(graph, graph.inputs[0].name)


def reached(lookup: Index, tensor: str) -> list[Any]:
    """Every node below `tensor`, found by walking from reader to reader; Shape reads no values."""
    found: list[Any] = []
    waiting = [tensor]
    while waiting:
        current = waiting.pop()
        for node in lookup.nodes:
            if node.op != "Shape" and node not in found and current in [entry.name for entry in node.inputs]:
                found.append(node)
                waiting += [entry.name for entry in node.outputs]
    return found


def test_paths_are_those_of_a_walk(lookup: Index):
    tensors = sorted(lookup.activations)
    below = {tensor: {node.name for node in reached(lookup, tensor)} for tensor in tensors}
    makers = {out.name: node.name for node in lookup.nodes for out in node.outputs}
    for start, end in product(tensors, repeat=2):
        follows = start == end or makers.get(end) in below[start]
        way = [
            node
            for node in lookup.nodes
            if node.name in below[start]
            and (node.name == makers.get(end) or any(makers.get(end) in below[out.name] for out in node.outputs))
        ]

        assert lookup.follows(end, start) == follows
        assert [node.name for node in lookup.between(start, end)] == [node.name for node in way]
        assert lookup.passes(start, end, KINDS) == any(node.op in KINDS for node in way)
