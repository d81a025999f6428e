"""Who makes and who reads each tensor, and which tensors follow from which; answers in constant time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_graphsurgeon as gs

# Reading a tensor's shape does not make the reader depend on the tensor's values.
SHAPE_READERS = frozenset({"Shape", "Size"})


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """Lookups over one graph. `ancestry` holds, for each tensor, a bit for each node it follows from."""

    nodes: Sequence[Any]
    producer: dict[str, int]
    consumers: dict[str, list[int]]
    ancestry: dict[str, int]
    activations: frozenset[str]  # tensors whose values follow from the image

    def node(self, tensor: str) -> Any | None:
        """The node that makes `tensor`."""
        position = self.producer.get(tensor)
        return None if position is None else self.nodes[position]

    def readers(self, tensor: str) -> list[Any]:
        """The nodes that read `tensor`, in topological order."""
        return [self.nodes[position] for position in self.consumers.get(tensor, ())]

    def follows(self, tensor: str, other: str) -> bool:
        """Whether the values of `tensor` follow from those of `other` (or they are the same tensor)."""
        if tensor == other:
            return True
        position = self.producer.get(other)
        if position is None:  # a graph input: everything that is an activation follows from it
            return tensor in self.activations
        return bool(self.ancestry.get(tensor, 0) >> position & 1)

    def between(self, start: str, end: str) -> list[Any]:
        """The nodes on the way from `start` to `end`."""
        mask = self.ancestry.get(end, 0)
        return [
            node
            for position, node in enumerate(self.nodes)
            if mask >> position & 1 and any(self.follows(name, start) for name in data_inputs(node))
        ]


def data_inputs(node: Any) -> list[str]:
    """Names of the inputs whose values `node` reads."""
    return [] if node.op in SHAPE_READERS else [tensor.name for tensor in node.inputs if tensor.name]


def index(graph: gs.Graph, image: str) -> Index:
    """Index a topologically sorted graph; `image` is the name of the input that carries the picture."""
    nodes = list(graph.nodes)
    producer: dict[str, int] = {}
    consumers: dict[str, list[int]] = {}
    ancestry: dict[str, int] = {}
    activations = {image}
    for position, node in enumerate(nodes):
        for tensor in dict.fromkeys(t.name for t in node.inputs if t.name):
            consumers.setdefault(tensor, []).append(position)
        read = data_inputs(node)
        mask = 1 << position | _union(ancestry.get(name, 0) for name in read)
        for tensor in node.outputs:
            if tensor.name:
                producer[tensor.name] = position
                ancestry[tensor.name] = mask
                if not activations.isdisjoint(read):
                    activations.add(tensor.name)
    return Index(nodes, producer, consumers, ancestry, frozenset(activations))


def _union(masks: Iterable[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total
