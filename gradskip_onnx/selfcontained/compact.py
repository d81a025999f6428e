"""Makes what was added to a graph small: short names of tensors, none of nodes, and equal constants held once.

Most of an added graph is names: each tensor is called where it is made and wherever it is read. Those that the model
gave to its own nodes and tensors stay.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import count

import onnx

SHORT = "g/"
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def make_compact(graph: onnx.GraphProto, own_tensors: Container[str], own_nodes: Container[str]) -> None:
    """Rename what the model has no name for and merge constants, in place; inputs and outputs keep their names."""
    public = {port.name for port in (*graph.input, *graph.output)}
    same = _equal_constants(graph, own_tensors, public)
    kept = onnx.GraphProto(initializer=[tensor for tensor in graph.initializer if tensor.name not in same])
    graph.ClearField("initializer")
    graph.initializer.extend(kept.initializer)
    made = dict.fromkeys(name for name in _made(graph) if name not in own_tensors and name not in public)
    free = (name for name in _short_names() if name not in own_tensors and name not in public)
    names = dict(zip(made, free, strict=False))
    _rename(graph, names | {name: names[first] for name, first in same.items()}, own_nodes)


def _equal_constants(graph: onnx.GraphProto, own: Container[str], public: Container[str]) -> dict[str, str]:
    """Added constants that are another one: their names and that of the first."""
    first: dict[bytes, str] = {}
    same: dict[str, str] = {}
    for tensor in graph.initializer:
        if tensor.name in own or tensor.name in public:
            continue
        content = onnx.TensorProto()
        content.CopyFrom(tensor)
        content.ClearField("name")
        found = first.setdefault(content.SerializeToString(deterministic=True), tensor.name)
        if found != tensor.name:
            same[tensor.name] = found
    return same


def _made(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of all tensors that a graph and its bodies make, hold or take."""
    yield from (entry.name for entry in (*graph.initializer, *graph.input))
    for node in graph.node:
        yield from filter(None, node.output)
        for body in _bodies(node):
            yield from _made(body)


def _bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _short_names() -> Iterator[str]:
    return (f"{SHORT}{_in_digits(number)}" for number in count())


def _in_digits(number: int) -> str:
    """A number to the base of DIGITS."""
    rest, last = divmod(number, len(DIGITS))
    return (_in_digits(rest) if rest else "") + DIGITS[last]


def _rename(graph: onnx.GraphProto, names: Mapping[str, str], own_nodes: Container[str]) -> None:
    """Give tensors other names, also in bodies; nodes that are not the model's lose theirs."""
    entries: Iterable[onnx.TensorProto | onnx.ValueInfoProto] = (*graph.initializer, *graph.input, *graph.output)
    for entry in entries:
        if entry.name in names:
            entry.name = names[entry.name]
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        if node.name not in own_nodes:
            node.ClearField("name")
        for body in _bodies(node):
            _rename(body, names, own_nodes)
