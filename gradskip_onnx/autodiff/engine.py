"""Reverse-mode differentiation: appends the gradient of a score at chosen tensors to a graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.autodiff.rules.piece_rules import PIECE_RULES
from gradskip_onnx.autodiff.rules.table import STANDARD_DOMAINS, Gradient, Inputs, Node, Rule, missing_rule
from gradskip_onnx.autodiff.rulesets.in_force import in_force
from gradskip_onnx.autodiff.rulesets.table import GRADIENT
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.operators import Kind, of_kind

from . import dims as shapes
from .composites import Group, groups
from .emit import Emit, Sym
from .partial_gradients import Piece, total

QUANTISED = (np.int8, np.uint8)
SHAPE_READERS = of_kind(Kind.READS_SHAPE)
INTEGER_PRODUCTS = of_kind(Kind.INTEGER)  # their int32 results stand for real numbers too


def backward(
    emit: Emit, *, of: str, seed: Sym, at: Sequence[str], rules: Mapping[str, Rule] = GRADIENT
) -> dict[str, Sym]:
    """Gradients at the tensors `at` of a score whose gradient at the tensor `of` is `seed`."""
    start = len(emit.graph.nodes)
    above = ancestors(emit, of)
    nodes, alive = _paths(emit, above, of, at)
    varying = activations(emit, above)
    parts: dict[str, list[Sym | Piece]] = defaultdict(list, {of: [seed]})
    totals: dict[str, Sym | Piece] = {}
    composites = {id(group.last): group for group in groups(nodes, emit.facts, rules, at)}
    inside = {id(node) for group in composites.values() for node in group.nodes[:-1]}
    for node in reversed(nodes):
        if id(node) in inside:
            continue
        incoming = [_total_gradient(emit, output.name, parts, totals) for output in node.outputs]
        if all(g is None for g in incoming):
            continue
        view = _view(emit, node, alive, varying, composites.get(id(node)))
        gradients = _apply(_rule(emit, node, view, rules), view, incoming)
        for name, needed, g in zip(view.x.names, view.needs_gradient, gradients, strict=True):
            if needed and g is not None:
                parts[name].append(_unbroadcast(g, emit.sym(name)))
    found = {name: _whole(_total_gradient(emit, name, parts, totals)) or emit.zeros_like(emit.sym(name)) for name in at}
    emit.drop_unused(start, [seed, *found.values()])
    return found


def _total_gradient(
    emit: Emit, name: str, parts: dict[str, list[Sym | Piece]], totals: dict[str, Sym | Piece]
) -> Gradient:
    """The sum of the gradient parts of a tensor; complete once all nodes that read the tensor have been visited."""
    if name not in totals and parts.get(name):
        g = total(parts.pop(name))
        if g is not None:
            totals[name] = g if isinstance(g, Piece) else g.expand_like(emit.sym(name))
    return totals.get(name)


def _apply(rule: Rule, view: Node, incoming: Sequence[Gradient]) -> tuple[Gradient, ...]:
    """The gradients of the inputs of a node; a piece is padded unless the rule in force there has a form for it."""
    if len(incoming) == 1 and isinstance(incoming[0], Piece):
        for_piece = PIECE_RULES.get(in_force(rule, view))
        found = None if for_piece is None else for_piece(view, incoming[0])
        if found is not None:
            return found
    return rule(view, *map(_whole, incoming))


def _whole(g: Gradient) -> Sym | None:
    return g.whole() if isinstance(g, Piece) else g


def _unbroadcast(g: Sym | Piece, x: Sym) -> Sym | Piece:
    """Sum over the axes along which `x` was broadcast; `_total_gradient` expands a gradient smaller than `x`."""
    if isinstance(g, Piece):
        axis = g.axis - (g.part.rank - x.rank)
        part = _summed(g.part, x)
        return replace(g, part=part, axis=axis) if axis >= 0 and x.dims[axis] == g.size else part
    return _summed(g, x)


def _summed(g: Sym, x: Sym) -> Sym:
    axes = shapes.surplus(g.dims, x.dims) if g.rank >= x.rank else ()
    lead = tuple(range(g.rank - x.rank))
    summed = g.sum([axis for axis in axes if axis not in lead])
    return (summed.sum(lead, keepdims=False) if lead else summed).cast(x.real)


def _rule(emit: Emit, node: Any, view: Node, rules: Mapping[str, Rule]) -> Rule:
    """The rule of a node; operators of other domains have keys such as `com.microsoft::Gelu`."""
    key = view.op if node.domain in STANDARD_DOMAINS else f"{node.domain}::{node.op}"
    if key not in rules:
        raise missing_rule(key, node.name, emit.opset)
    return rules[key]


def _view(emit: Emit, node: Any, alive: set[str], varying: set[str], group: Group | None) -> Node:
    """The node as its rule reads it; a group appears as one node with the operator of the group."""
    sources, op, attrs = (node.inputs, node.op, node.attrs)
    if group is not None:
        sources, op, attrs = [group.source], group.op, group.attrs
    names = tuple(tensor.name for tensor in sources)
    outputs = tuple(tensor.name for tensor in node.outputs)
    needs_gradient = tuple(name in alive for name in names)
    return Node(emit, op, node.name, attrs, Inputs(emit, names), outputs, needs_gradient, varying)


def _paths(emit: Emit, above: list[Any], of: str, at: Iterable[str]) -> tuple[list[Any], set[str]]:
    """The nodes between the tensors `at` and `of` in topological order, and the tensors on those paths.

    A path runs through floating-point and quantised tensors only: an index or a mask has no gradient.
    """
    leads = {of}
    for node in reversed(above):
        if any(tensor.name in leads for tensor in node.outputs):
            leads.update(tensor.name for tensor in _sources(node) if _carries(emit, tensor))
    for name in at:
        if name not in leads:
            raise UnsupportedModelError(
                "no-path", f"{of!r} does not depend on {name!r}; choose tensors between the input and the score"
            )
    alive, nodes = set(at), []
    for node in above:
        if any(tensor.name in alive for tensor in _sources(node)):
            outputs = {tensor.name for tensor in node.outputs} & leads
            alive |= outputs
            nodes += [node] if outputs else []
    return nodes, alive


def activations(emit: Emit, above: list[Any]) -> set[str]:
    """The tensors whose values depend on a graph input; dependence through a shape does not count."""
    found = {tensor.name for tensor in emit.graph.inputs}
    for node in above:
        if node.op not in SHAPE_READERS and any(tensor.name in found for tensor in _sources(node)):
            found.update(tensor.name for tensor in node.outputs)
    return found


def ancestors(emit: Emit, of: str) -> list[Any]:
    """Every node `of` depends on, inputs before outputs (iterative: real graphs are deeper than Python's stack)."""
    order: list[Any] = []
    seen: set[int] = set()
    stack: list[tuple[Any, bool]] = [(node, False) for node in emit.sym(of).tensor.inputs]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((parent, False) for tensor in _sources(node) for parent in tensor.inputs)
    return order


def _sources(node: Any) -> list[Any]:
    """The tensors that a node reads: its inputs, and outer tensors that the bodies of If, Loop and Scan read."""
    sources = [tensor for tensor in node.inputs if tensor.name]
    for body in (value for value in node.attrs.values() if isinstance(value, gs.Graph)):
        inside = {tensor.name for tensor in body.inputs}
        for inner in body.nodes:
            sources += [tensor for tensor in _sources(inner) if tensor.name not in inside]
            inside.update(tensor.name for tensor in inner.outputs)
    return sources


def _carries(emit: Emit, tensor: Any) -> bool:
    """Whether a tensor can have a gradient: floating-point numbers, and integers that stand for them."""
    kind = emit.sym(tensor.name).dtype
    summed = any(node.op in INTEGER_PRODUCTS for node in tensor.inputs)
    return np.issubdtype(kind, np.floating) or kind in QUANTISED or summed
