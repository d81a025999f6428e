"""Index of a graph: the producer and the readers of each tensor, and which tensors depend on which."""

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
    """Lookups over one graph. A set of nodes is an integer with one bit per node, at the node's position.

    A question about paths is then a few bitwise operations, however deep the graph.
    """

    nodes: Sequence[Any]
    producer: dict[str, int]
    consumers: dict[str, list[int]]
    ancestry: dict[str, int]  # tensor -> set of the nodes it depends on
    descent: Sequence[int]  # node position -> set of the nodes that depend on it, and itself
    operators: dict[str, int]  # operator -> set of its nodes
    activations: frozenset[str]  # tensors whose values depend on the image

    def node(self, tensor: str) -> Any | None:
        """The node that produces `tensor`."""
        position = self.producer.get(tensor)
        return None if position is None else self.nodes[position]

    def readers(self, tensor: str) -> list[Any]:
        """The nodes that read `tensor`, in topological order."""
        return [self.nodes[position] for position in self.consumers.get(tensor, ())]

    def follows(self, tensor: str, other: str) -> bool:
        """Whether the values of `tensor` depend on those of `other` (or they are the same tensor)."""
        if tensor == other:
            return True
        position = self.producer.get(other)
        if position is None:  # a graph input: every activation depends on it
            return tensor in self.activations
        return bool(self.ancestry.get(tensor, 0) >> position & 1)

    def between(self, start: str, end: str) -> list[Any]:
        """The nodes on any path from `start` to `end`, in topological order."""
        return self.pick(self.below(start) & self.ancestry.get(end, 0))

    def passes(self, start: str, end: str, kinds: Iterable[str]) -> bool:
        """Whether a path from `start` to `end` contains one of these operators."""
        return bool(self.below(start) & self.ancestry.get(end, 0) & self.of(kinds))

    def below(self, tensor: str) -> int:
        """The set of nodes that depend on `tensor`."""
        position = self.producer.get(tensor)
        if position is not None:
            return self.descent[position] ^ 1 << position
        readers = (r for r in self.consumers.get(tensor, ()) if tensor in data_inputs(self.nodes[r]))
        return _union(self.descent[reader] for reader in readers)

    def makers(self, tensors: Iterable[str]) -> int:
        """The set of nodes that produce these tensors."""
        return _union(1 << self.producer[tensor] for tensor in tensors)

    def of(self, kinds: Iterable[str]) -> int:
        """The set of nodes with one of these operators."""
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
    """`Index.descent` and `Index.operators`, in one pass from the last node to the first."""
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
