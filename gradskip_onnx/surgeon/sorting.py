"""Sorts the nodes of a graph so that each stands behind what it reads.

Graphsurgeon's own sort goes one call deeper with each node of a path, which Python's stack ends at a thousand.
"""

from __future__ import annotations

from typing import Any

import onnx_graphsurgeon as gs

from gradskip_onnx.errors import ModelError

from .private_names import outer_tensors


def sort_nodes(graph: gs.Graph) -> gs.Graph:
    """Sort by depth, in place: a node that reads only inputs and constants has depth 0; equals stay in order."""
    for body in graph.subgraphs():
        sort_nodes(body)
    own = {id(node) for node in graph.nodes}
    depths: dict[int, int] = {}
    order = []
    for start in graph.nodes:
        entered: set[int] = set()  # nodes on the way down from `start`, whose depth is not known yet
        stack = [start]
        while stack:
            node = stack[-1]
            if id(node) in depths:
                stack.pop()
                continue
            before = [maker for maker in _makers(node) if id(maker) in own]
            missing = [maker for maker in before if id(maker) not in depths]
            if missing:
                if id(node) in entered:
                    raise ModelError(f"the graph runs in a circle: node {node.name!r} ({node.op}) reads its own result")
                entered.add(id(node))
                stack += reversed(missing)
                continue
            depths[id(node)] = 1 + max((depths[id(maker)] for maker in before), default=-1)
            order.append(node)
            stack.pop()
    graph.nodes = sorted(order, key=lambda node: depths[id(node)])
    return graph


def _makers(node: Any) -> list[Any]:
    """The nodes whose results a node, or a body inside it, reads."""
    read = list(node.inputs)
    for body in node.subgraphs():
        read += outer_tensors(body)
    return list({id(maker): maker for tensor in read for maker in tensor.inputs}.values())
