"""Keeps our own names free and gives every node one of its own: the names in a file never matter.

Ours begin with `gradskip/`. A tensor or node of the file that is called so, as in a file that we wrote, gets another
prefix in front; no two names become one by that.
"""

from __future__ import annotations

import re
from collections import Counter

import onnx_graphsurgeon as gs

from gradskip_onnx.surgeon.node_writer import PREFIX

ESCAPE = "file/"
OURS = re.compile(f"(?:{ESCAPE})*{PREFIX}")


def name_apart(graph: gs.Graph) -> None:
    """Rename, in place, what is called as we call things, and nodes that have no name or that of another."""
    graphs = [graph, *graph.subgraphs(recursive=True)]
    tensors = {id(tensor): tensor for each in graphs for tensor in each.tensors().values()}
    for tensor in tensors.values():
        tensor.name = escaped(tensor.name)
    taken = {escaped(node.name) for node in graph.nodes}
    seen: Counter[str] = Counter()
    for node in graph.nodes:
        name = escaped(node.name) or f"{PREFIX}{node.op}"  # messages must be able to point at every node
        seen[name] += 1
        while seen[name] > 1 and f"{name}_{seen[name]}" in taken:
            seen[name] += 1
        node.name = name if seen[name] == 1 else f"{name}_{seen[name]}"


def escaped(name: str) -> str:
    """A name of the file that cannot be one of ours."""
    return ESCAPE + name if OURS.match(name) else name


def unescaped(name: str) -> str:
    """The name as it stands in the file."""
    return name.removeprefix(ESCAPE) if OURS.match(name) else name
