"""Finds the few nodes that make a large tensor from much smaller ones, such as an attention from queries and keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.surgeon.node_writer import PREFIX
from gradskip_onnx.types import TensorFact

HELD = 96 << 20  # bytes of large tensors that a pass may hold for an image: below, time counts more than memory
LARGE = 1 << 20  # bytes of a tensor that is worth the trouble
TIMES_SMALLER = 6  # what a large tensor is made from must be this much smaller; a hidden layer is 4 times its input
MOST_NODES = 16  # between small tensors and a large one: an attention with its scale, mask, bias and casts has fewer


def bytes_of(tensor: Any, facts: Mapping[str, TensorFact]) -> int:
    """The size of an activation for one image; 0 for a tensor without a known shape."""
    fact = facts.get(tensor.name)
    if fact is not None:
        return prod(1 if size is None else size for size in fact.dims) * fact.dtype.itemsize
    if not tensor.name.startswith(PREFIX) or isinstance(tensor, gs.Constant) or None in (tensor.dtype, tensor.shape):
        return 0
    sizes = (size for size in tensor.shape if isinstance(size, int))  # the batch has a name, or None
    return int(prod(sizes) * np.dtype(tensor.dtype).itemsize)


def chain(tensor: Any, facts: Mapping[str, TensorFact]) -> list[Any]:
    """The nodes that make `tensor` from much smaller tensors, inputs first; none if there are too many."""
    limit = bytes_of(tensor, facts) / TIMES_SMALLER
    nodes: dict[int, Any] = {}
    waiting = [(tensor, False)]
    while waiting:
        made, ready = waiting.pop()
        node = made.inputs[0] if made.inputs else None
        if node is None or len(node.outputs) != 1 or len(nodes) + len(waiting) > MOST_NODES or _has_body(node):
            return []
        if ready:
            nodes[id(node)] = node
        elif id(node) not in nodes:
            waiting.append((made, True))
            waiting += [(source, False) for source in activations(node) if bytes_of(source, facts) > limit]
    return list(nodes.values())


def activations(node: Any) -> Iterator[Any]:
    """The inputs of a node that are no constants."""
    return (tensor for tensor in node.inputs if tensor.name and not isinstance(tensor, gs.Constant))


def sources(nodes: list[Any]) -> list[Any]:
    """The tensors that a chain of nodes reads and does not make, each once."""
    inside = {tensor.name for node in nodes for tensor in node.outputs}
    read = {tensor.name: tensor for node in nodes for tensor in activations(node)}
    return [tensor for name, tensor in read.items() if name not in inside]


def _has_body(node: Any) -> bool:
    """Whether a node has a graph in it, which may read tensors that are not among its inputs."""
    return any(isinstance(value, gs.Graph) for value in node.attrs.values())
