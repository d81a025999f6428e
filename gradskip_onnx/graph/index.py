"""Who makes and who reads each tensor, and which tensors follow from which; answers in constant time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_graphsurgeon as gs

from gradskip_onnx.operators import Kind, of_kind

# Reading a tensor's shape does not make the reader depend on the tensor's values.
SHAPE_READERS = of_kind(Kind.READS_SHAPE)


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """Lookups over one graph. Sets of nodes are whole numbers with a bit for each node, at its position.

    Questions about paths are then a few operations on such numbers, however deep the graph.
    """

    nodes: Sequence[Any]
    producer: dict[str, int]
    consumers: dict[str, list[int]]
    ancestry: dict[str, int]  # for each tensor the nodes it follows from
    descent: Sequence[int]  # for each node the nodes that follow from it, and itself
    operators: dict[str, int]  # for each operator the nodes that are one
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
        return self.pick(self.below(start) & self.ancestry.get(end, 0))

    def passes(self, start: str, end: str, kinds: Iterable[str]) -> bool:
        """Whether one of these operators stands on the way from `start` to `end`."""
        return bool(self.below(start) & self.ancestry.get(end, 0) & self.of(kinds))

    def below(self, tensor: str) -> int:
        """The nodes that follow from `tensor`."""
        position = self.producer.get(tensor)
        if position is not None:
            return self.descent[position] ^ 1 << position
        readers = (r for r in self.consumers.get(tensor, ()) if tensor in data_inputs(self.nodes[r]))
        return _union(self.descent[reader] for reader in readers)

    def makers(self, tensors: Iterable[str]) -> int:
        """The nodes that make these tensors."""
        return _union(1 << self.producer[tensor] for tensor in tensors)

    def of(self, kinds: Iterable[str]) -> int:
        """The nodes that are one of these operators."""
        return _union(self.operators.get(kind, 0) for kind in kinds)

    def pick(self, chosen: int) -> list[Any]:
        """The nodes of a set, in topological order."""
        found = []
        while chosen:
            lowest = chosen & -chosen
            found.append(self.nodes[lowest.bit_length() - 1])
            chosen ^= lowest
        return found


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
    descent, operators = _descent(nodes, producer)
    return Index(nodes, producer, consumers, ancestry, descent, operators, frozenset(activations))


def _descent(nodes: Sequence[Any], producer: Mapping[str, int]) -> tuple[list[int], dict[str, int]]:
    """What follows from each node, and which nodes are of which operator."""
    descent = [1 << position for position in range(len(nodes))]
    operators: dict[str, int] = {}
    for position in range(len(nodes) - 1, -1, -1):
        operators[nodes[position].op] = operators.get(nodes[position].op, 0) | 1 << position
        for maker in {producer[name] for name in data_inputs(nodes[position]) if name in producer}:
            descent[maker] |= descent[position]
    return descent, operators


def _union(masks: Iterable[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total
