"""Bounds the work that a model asks for before any is done: its nodes, and what its functions expand to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import onnx

from gradskip_onnx.errors import ModelError
from gradskip_onnx.limits import NODES

Key = tuple[str, str, str]  # domain, name and overload of a function
STANDARD = ("", "ai.onnx")


def check_bounds(model: onnx.ModelProto, name: str) -> None:
    """Refuse a model with names that are no text, of too many nodes, or whose functions cannot be written out."""
    if not all(isinstance(text, str) for text in _texts(model)):  # protobuf gives what it cannot decode as bytes
        raise ModelError(f"{name}: a name in the graph is not UTF-8; is the file damaged?")
    functions = {}
    for function in model.functions:
        key = _key(function.domain, function.name, function.overload)
        if key in functions:
            raise ModelError(f"{name}: function {function.name!r} is defined twice")
        functions[key] = function
    sizes: dict[Key, int] = {}
    for key in _callees_first(functions, name):
        sizes[key] = _expanded(functions[key].node, sizes)
    for node in every_node(model.graph.node):
        _refuse_reference(node, name)
    NODES.check(_expanded(model.graph.node, sizes), f"{name}: the graph")


def every_node(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes and those of the bodies inside them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from every_node(body.node)


def _texts(model: onnx.ModelProto) -> Iterator[str]:
    """Every name that is looked up."""
    graph = model.graph
    for entry in (*graph.initializer, *graph.input, *graph.output, *graph.value_info, *model.functions):
        yield entry.name
    for port in (*graph.input, *graph.output, *graph.value_info):
        yield from (size.dim_param for size in port.type.tensor_type.shape.dim)
    yield from (entry.domain for entry in (*model.opset_import, *model.functions))
    bodies = (graph.node, *(function.node for function in model.functions))
    for node in (node for body in bodies for node in every_node(body)):
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


def _key(domain: str, name: str, overload: str) -> Key:
    return ("" if domain in STANDARD else domain), name, overload


def _callees_first(functions: Mapping[Key, onnx.FunctionProto], name: str) -> list[Key]:
    calls = {
        key: {called for node in every_node(function.node) if (called := _called(node)) in functions}
        for key, function in functions.items()
    }
    try:
        return list(TopologicalSorter(calls).static_order())
    except CycleError as circle:
        raise ModelError(f"{name}: function {circle.args[1][0][1]!r} calls itself") from circle


def _called(node: onnx.NodeProto) -> Key:
    return _key(node.domain, node.op_type, node.overload)


def _expanded(nodes: Iterable[onnx.NodeProto], sizes: Mapping[Key, int]) -> int:
    """How many nodes there are once functions are written out; `sizes` has those of the functions called."""
    return sum(sizes.get(_called(node), 1) for node in every_node(nodes))


def _refuse_reference(node: onnx.NodeProto, name: str) -> None:
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            raise ModelError(
                f"{name}: node {node.name!r} ({node.op_type}) takes {attribute.name!r} from an attribute "
                f"{attribute.ref_attr_name!r} of a function, and stands in none"
            )
