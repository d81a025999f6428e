"""Tells signals from gates at the inputs of a node; finds products that belong to attention or embed patches."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from gradskip_onnx.autodiff.rules.table import Node
from gradskip_onnx.operators import Kind, of_kind
from gradskip_onnx.types import Array

PRODUCTS = of_kind(Kind.MATRIX | Kind.CONVOLUTION)
BINARY = frozenset({"Add", "Sub", "Mul", "Div"})
LAYOUT = of_kind(Kind.MOVES | Kind.PICKS | Kind.QUANTISES | Kind.DEQUANTISES)
ROUNDS = frozenset({"Cast", "QuantizeLinear", "DequantizeLinear"})
NORMS = of_kind(Kind.NORMALISES)
STEPS = of_kind(Kind.STEPS)
# Gates, spreads (deviations, norms) that a normalisation divides by, and steps, which have no gradient anyway.
HELD = of_kind(Kind.GATE | Kind.SPREAD) | STEPS
POINTWISE = of_kind(Kind.UNARY | Kind.BROADCASTS | Kind.PICKS) | ROUNDS
MOST_HOPS = 16  # nodes between the operator of a gate and its product
MOST_TENSORS = 32  # in a function that gates its own argument: the tanh form of GELU has 8


def readers(n: Node, tensor: Any) -> list[Any]:
    """The forward nodes that read a tensor; nodes of the backward pass have no entry in `facts`."""
    return [node for node in tensor.outputs if any(output.name in n.emit.facts for output in node.outputs)]


def gates_something(n: Node, tensor: Any) -> bool:
    """Whether a tensor, possibly moved, scaled or shifted by what is held, multiplies or divides another activation."""
    for node in readers(n, tensor):
        others = [source for source in node.inputs if source.name in n.activations and source is not tensor]
        if node.op in ("Mul", "Div") and others:
            return True
        shifted = node.op in BINARY | {"Neg", "Reciprocal"} and all(is_held(n, other) for other in others)
        if (shifted or node.op in LAYOUT) and gates_something(n, node.outputs[0]):
            return True
    return False


def is_held(n: Node, tensor: Any, hops: int = MOST_HOPS) -> bool:
    """True for gates, spreads that a normalisation divides by, and quantisation scales: constants under LRP."""
    if not tensor.inputs or not hops:
        return False
    node = tensor.inputs[0]
    if node.op in HELD or (node.op == "DynamicQuantizeLinear" and tensor is not node.outputs[0]):
        return True
    if node.op == "Pow":
        return is_root(n.emit.value(node.inputs[1].name))
    if node.op not in LAYOUT | BINARY | {"Reciprocal", "Neg"}:
        return False
    varying = [source for source in node.inputs if source.name in n.activations]
    return bool(varying) and all(is_held(n, source, hops - 1) for source in varying)


def is_root(exponent: Array | None) -> bool:
    """Whether a power is a root or one over a root: another way to write Sqrt."""
    return exponent is not None and exponent.size == 1 and not float(exponent.item()).is_integer()


def gate_at(n: Node, node: Any) -> int | None:
    """The position of the gate in a product or quotient of two activations; None if there is none.

    A gate is a tensor that `is_held`, or a function of the other activation alone: F in x F(x) and x / F(x), however
    it is written, and one of the two factors of x x.
    """
    if node.op not in ("Mul", "Div") or not all(tensor.name in n.activations for tensor in node.inputs):
        return None
    places = (1, 0) if node.op == "Mul" else (1,)
    gates = [at for at in places if is_held(n, node.inputs[at])]
    functions = [at for at in places if _function_of(n, node.inputs[at], node.inputs[1 - at])]
    return next(iter([*gates, *functions]), None)


def _function_of(n: Node, tensor: Any, argument: Any) -> bool:
    """Whether a tensor is an elementwise function of `argument`, or of the tensor it is a constant multiple of."""
    ends = _unscaled(n, argument)
    stack, seen = [tensor], {tensor.name}
    while stack:
        current = stack.pop()
        if current.name in ends:
            continue
        maker = current.inputs[0] if current.inputs else None
        if maker is not None and maker.op in STEPS:
            continue
        if maker is None or maker.op not in POINTWISE or len(seen) > MOST_TENSORS:
            return False
        fresh = [source for source in maker.inputs if source.name in n.activations and source.name not in seen]
        seen.update(source.name for source in fresh)
        stack += fresh
    return True


def _unscaled(n: Node, tensor: Any) -> set[str]:
    """The names of a tensor and of all tensors that it is a constant multiple of."""
    names = {tensor.name}
    while tensor.inputs:
        node = tensor.inputs[0]
        varying = [source for source in node.inputs if source.name in n.activations]
        linear = node.op in ROUNDS | {"Neg", "Mul"} or (node.op == "Div" and node.inputs[0].name in n.activations)
        if not linear or len(varying) != 1:
            break
        tensor = varying[0]
        names.add(tensor.name)
    return names


def signals(n: Node, node: Any) -> list[int]:
    """The positions of the inputs that are signals: activations that are no gate, divisor or subtracted mean."""
    if node.op in NORMS:
        return [0]
    varying = [at for at, tensor in enumerate(node.inputs) if tensor.name in n.activations and not is_held(n, tensor)]
    if len(varying) != 2:
        return varying
    if node.op == "Div":
        return varying[:1]
    if (centred := centred_at(node)) is not None:
        return [centred]
    gates = {gate_at(n, node), *(at for at in varying if node.op == "Mul" and _divides(node.inputs[at]))}
    return [at for at in varying if at not in gates]


def _divides(tensor: Any) -> bool:
    """Whether a factor is a reciprocal, so that the product is a quotient."""
    tensor = _unrounded(tensor)
    return bool(tensor.inputs) and tensor.inputs[0].op == "Reciprocal"


def centred_at(node: Any) -> int | None:
    """The position of x in x - mean(x), as in a normalisation, or x - max(x), as in a softmax; None if it is neither.

    Written as a difference, or as a sum with -mean(x).
    """
    pairs = {0: node.inputs[1]} if node.op == "Sub" else {}
    if node.op == "Add":
        makers = [(at, tensor.inputs[0]) for at, tensor in enumerate(node.inputs) if tensor.inputs]
        pairs = {1 - at: maker.inputs[0] for at, maker in makers if maker.op == "Neg"}
    for at, taken in pairs.items():
        means = [maker for maker in _unrounded(taken).inputs if maker.op in ("ReduceMean", "ReduceMax")]
        if any(_unrounded(mean.inputs[0]) is _unrounded(node.inputs[at]) for mean in means):
            return at
    return None


def _unrounded(tensor: Any) -> Any:
    """The tensor before it was cast or quantised."""
    while tensor.inputs and tensor.inputs[0].op in ROUNDS:
        tensor = tensor.inputs[0].inputs[0]
    return tensor


def own_signals(n: Node) -> list[int]:
    """`signals` of the node that a rule was called with."""
    return signals(n, n.y.tensor.inputs[0])


def is_product(n: Node, node: Any) -> bool:
    """Whether a node is a matrix product of two activations."""
    return node.op in PRODUCTS and all(tensor.name in n.activations for tensor in node.inputs[:2])


def in_attention(n: Node) -> bool:
    """Whether a layer makes queries, keys, values or the output of attention, next to a product of activations."""
    return _meets_product(n, n.y.tensor, up=False) or any(
        _meets_product(n, n.x[index].tensor, up=True) for index in range(len(n.x)) if n.varies(index)
    )


def _meets_product(n: Node, start: Any, *, up: bool) -> bool:
    """Whether a product of activations is reached from `start` through nodes that only move, scale or normalise tokens.

    `up`: towards the image, else towards the score.
    """
    stack, seen = [start], {start.name}
    while stack:
        tensor = stack.pop()
        for node in tensor.inputs if up else readers(n, tensor):
            if is_product(n, node):
                return True
            if not _moves_on(n, node):
                continue
            neighbours = [node.inputs[at] for at in signals(n, node)] if up else [*node.outputs]
            fresh = [other for other in neighbours if other.name in n.activations and other.name not in seen]
            seen.update(other.name for other in fresh)
            stack += fresh
    return False


def _moves_on(n: Node, node: Any) -> bool:
    return node.op in LAYOUT | NORMS or (node.op in BINARY and len(signals(n, node)) == 1)


def is_patch_embedding(n: Node) -> bool:
    """Whether no other product is between the image and this one, so that it makes the patches."""
    return before_products([n.x[index].tensor for index in range(len(n.x)) if n.varies(index)], n.activations)


def before_products(tensors: Sequence[Any], activations: Set[str]) -> bool:
    """Whether no product is between the image and the tensors."""
    stack, seen = [*tensors], set()
    while stack:
        for node in stack.pop().inputs:
            if node.op in PRODUCTS:
                return False
            if id(node) not in seen:
                seen.add(id(node))
                stack += [tensor for tensor in node.inputs if tensor.name in activations]
    return True
