"""Appends nodes and constants with new names to a graphsurgeon graph, and redirects readers of a tensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

PREFIX = "gradskip/"


def names_in(graph: gs.Graph) -> set[str]:
    """The names of all tensors and nodes, also in bodies of If, Loop and Scan, which may not hide one outside."""
    graphs = [graph, *graph.subgraphs(recursive=True)]
    tensors = {name for each in graphs for name in each.tensors()}
    return tensors | {node.name for node in graph.nodes}


def replace_reads(old: gs.Tensor, new: gs.Tensor) -> None:
    """Make every node that reads `old` read `new` instead."""
    for reader in list(old.outputs):
        reader.inputs = [new if tensor is old else tensor for tensor in reader.inputs]


class NodeWriter:
    """Writes into a graph that the caller owns; writers into the same graph share `taken`, the set of used names."""

    def __init__(self, graph: gs.Graph, opset: int, prefix: str = PREFIX, taken: set[str] | None = None) -> None:
        self.graph, self.opset, self.prefix = graph, opset, prefix
        self.taken = names_in(graph) if taken is None else taken
        self._number = 0

    def under(self, prefix: str) -> NodeWriter:
        """A writer into the same graph with another prefix of names."""
        return NodeWriter(self.graph, self.opset, prefix, self.taken)

    def name(self, kind: str) -> str:
        """A new name that contains `kind`."""
        name = ""
        while not name or name in self.taken:
            self._number += 1
            name = f"{self.prefix}{kind}_{self._number}"
        self.taken.add(name)
        return name

    def free(self, name: str) -> str:
        """The name itself if nothing has it, else a new one that starts alike."""
        if name in self.taken:
            return self.name(name)
        self.taken.add(name)
        return name

    def constant(self, value: Any, dtype: Any) -> gs.Constant:
        return gs.Constant(self.name("constant"), np.asarray(value, dtype))

    def variable(self, kind: str, dtype: Any = None, dims: Iterable[int | None] | None = None) -> gs.Variable:
        """A tensor for the output of a node."""
        return gs.Variable(self.name(kind), dtype, None if dims is None else list(dims))

    def append(
        self,
        op: str,
        inputs: Iterable[gs.Tensor],
        outputs: Iterable[gs.Tensor],
        attrs: Mapping[str, Any],
        domain: str | None = None,
    ) -> None:
        """Append one node at the end of the graph."""
        node = gs.Node(op, self.name(op), dict(attrs), inputs=list(inputs), outputs=list(outputs), domain=domain)
        self.graph.nodes.append(node)
