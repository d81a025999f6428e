"""Index of a graph: the producer and the readers of each tensor, and which tensors depend on which."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any

import onnx_graphsurgeon as gs

from gradskip_onnx.operators import Kind, of_kind

# Reading a tensor's shape does not make the reader depend on the tensor's values.
SHAPE_READERS = of_kind(Kind.READS_SHAPE)
PRODUCTS = of_kind(Kind.MATRIX)  # each begins a run, so that a set of runs can stand for a set of products


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """Lookups over one graph, whose nodes are numbered in topological order.

    A run is a row of nodes of which each reads the one before and nobody else does, so that every path takes all of it
    or none. A set of runs is an integer with one bit a run; long chains are a single bit.
    """

    nodes: Sequence[Any]
    producer: Mapping[str, int]
    consumers: Mapping[str, list[int]]
    run: Sequence[int]  # node -> its run
    above: Sequence[int]  # run -> set of the runs it depends on, and itself
    operators: Mapping[str, list[int]]  # operator -> its nodes, in order
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
        maker, position = self.producer.get(tensor), self.producer.get(other)
        if position is None:  # a graph input: every activation depends on it
            return tensor in self.activations
        return maker is not None and self._reaches(position, maker)

    def between(self, start: str, end: str) -> list[Any]:
        """The nodes on any path from `start` to `end`, in topological order."""
        last = self.producer.get(end)
        if last is None:
            return []
        return [
            self.nodes[at]
            for at in range(self._after(start), last + 1)
            if self._reaches(at, last) and self._is_below(at, start)
        ]

    def passes(self, start: str, end: str, kinds: Iterable[str]) -> bool:
        """Whether a path from `start` to `end` contains one of these operators."""
        last = self.producer.get(end, -1)
        return any(self._reaches(at, last) for at in self._below(start, kinds, last))

    def below(self, start: str, kinds: Iterable[str]) -> Iterator[Any]:
        """The nodes with one of these operators that depend on `start`, in topological order."""
        return (self.nodes[at] for at in self._below(start, kinds, len(self.nodes) - 1))

    def runs(self, tensors: Iterable[str]) -> int:
        """The set of the runs in which these tensors are made."""
        return sum(1 << run for run in {self.run[self.producer[tensor]] for tensor in tensors})

    def runs_above(self, tensor: str) -> int:
        """The set of the runs that `tensor` depends on."""
        position = self.producer.get(tensor)
        return 0 if position is None else self.above[self.run[position]]

    def _reaches(self, position: int, later: int) -> bool:
        """Whether a node depends on the one at `position`, or is that."""
        return position <= later and bool(self.above[self.run[later]] >> self.run[position] & 1)

    def _after(self, tensor: str) -> int:
        """The first position at which a node may depend on `tensor`."""
        return self.producer.get(tensor, -1) + 1

    def _is_below(self, position: int, start: str) -> bool:
        """Whether the node at `position`, behind `start`, depends on it."""
        maker = self.producer.get(start)
        if maker is not None:
            return self._reaches(maker, position)
        return any(output.name in self.activations for output in self.nodes[position].outputs)

    def _below(self, start: str, kinds: Iterable[str], last: int) -> Iterator[int]:
        first = self._after(start)
        for at in merge(*(_from(self.operators.get(kind, []), first) for kind in kinds)):
            if at > last:
                return
            if self._is_below(at, start):
                yield at


def _from(positions: Sequence[int], first: int) -> Iterator[int]:
    """The sorted positions from `first` on."""
    return (positions[at] for at in range(bisect_right(positions, first - 1), len(positions)))


def data_inputs(node: Any) -> list[str]:
    """Names of the inputs whose values `node` reads."""
    return [] if node.op in SHAPE_READERS else [tensor.name for tensor in node.inputs if tensor.name]


def index(graph: gs.Graph, image: str) -> Index:
    """Index a topologically sorted graph; `image` is the name of the input that carries the picture."""
    nodes = list(graph.nodes)
    producer: dict[str, int] = {}
    consumers: dict[str, list[int]] = {}
    operators: dict[str, list[int]] = {}
    makers: list[set[int]] = []
    activations = {image}
    for position, node in enumerate(nodes):
        operators.setdefault(node.op, []).append(position)
        for tensor in dict.fromkeys(t.name for t in node.inputs if t.name):
            consumers.setdefault(tensor, []).append(position)
        read = data_inputs(node)
        makers.append({producer[name] for name in read if name in producer})
        live = not activations.isdisjoint(read)
        for tensor in node.outputs:
            if tensor.name:
                producer[tensor.name] = position
                if live:
                    activations.add(tensor.name)
    run, above = _runs(makers, starts={at for kind in PRODUCTS for at in operators.get(kind, [])})
    return Index(nodes, producer, consumers, run, above, operators, frozenset(activations))


def _runs(makers: Sequence[set[int]], starts: set[int]) -> tuple[list[int], list[int]]:
    """`Index.run` and `Index.above`, from the nodes that each node reads; the nodes in `starts` each begin a run."""
    readers = [0] * len(makers)
    for read in makers:
        for maker in read:
            readers[maker] += 1
    run: list[int] = []
    above: list[int] = []
    for position, read in enumerate(makers):
        if len(read) == 1 and readers[next(iter(read))] == 1 and position not in starts:
            run.append(run[next(iter(read))])
        else:
            run.append(len(above))
            total = 1 << len(above)
            for before in {run[maker] for maker in read}:
                total |= above[before]
            above.append(total)
    return run, above
