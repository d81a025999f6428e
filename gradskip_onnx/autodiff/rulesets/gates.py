"""What stands at an operator: signals or gates, and whether a product with weights belongs to an attention."""

from __future__ import annotations

from typing import Any

from gradskip_onnx.autodiff.rules.table import Node
from gradskip_onnx.operators import Kind, of_kind
from gradskip_onnx.types import Array

PRODUCTS = of_kind(Kind.MATRIX | Kind.CONVOLUTION)
BINARY = frozenset({"Add", "Sub", "Mul", "Div"})
LAYOUT = of_kind(Kind.MOVES | Kind.PICKS | Kind.QUANTISES | Kind.DEQUANTISES)
ROUNDS = frozenset({"Identity", "Cast", "QuantizeLinear", "DequantizeLinear"})
NORMS = of_kind(Kind.NORMALISES)
STEPS = of_kind(Kind.STEPS)
# What opens or closes a gate, measures the spread that a normalisation divides by, or has no gradient anyway.
HELD = of_kind(Kind.GATE | Kind.SPREAD) | STEPS
POINTWISE = of_kind(Kind.UNARY | Kind.BROADCASTS | Kind.PICKS) | ROUNDS
MOST_HOPS = 16  # a gate stands near the operator that makes it
MOST_TENSORS = 32  # of a function that gates its own argument: the tanh form of GELU has 8


def readers(n: Node, tensor: Any) -> list[Any]:
    """The forward nodes that read a tensor; those of the backward pass made no tensor that the dry run saw."""
    return [node for node in tensor.outputs if any(output.name in n.emit.facts for output in node.outputs)]


def gates_something(n: Node, tensor: Any) -> bool:
    """Whether a tensor, moved, scaled or shifted by what is held, is multiplied with another activation."""
    for node in readers(n, tensor):
        others = [source for source in node.inputs if source.name in n.activations and source is not tensor]
        if node.op in ("Mul", "Div") and others:
            return True
        shifted = node.op in BINARY | {"Neg", "Reciprocal"} and all(held(n, other) for other in others)
        if (shifted or node.op in LAYOUT) and gates_something(n, node.outputs[0]):
            return True
    return False


def held(n: Node, tensor: Any, hops: int = MOST_HOPS) -> bool:
    """True for gates, spreads that a normalisation divides by, and scales of a grid: constants under LRP."""
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
    return bool(varying) and all(held(n, source, hops - 1) for source in varying)


def is_root(exponent: Array | None) -> bool:
    """Whether a power is a root or one over a root: another way to write Sqrt."""
    return exponent is not None and exponent.size == 1 and not float(exponent.item()).is_integer()


def gate_at(n: Node, node: Any) -> int | None:
    """The position of the factor or divisor of another activation that is only a gate or a spread.

    Such is what `held` knows, and every function of the other activation alone: in x F(x) and x / F(x) F is the gate,
    however it is written, and in x x one of the two.
    """
    if node.op not in ("Mul", "Div") or not all(tensor.name in n.activations for tensor in node.inputs):
        return None
    places = (1, 0) if node.op == "Mul" else (1,)
    known = [at for at in places if held(n, node.inputs[at])]
    own = [at for at in places if _function_of(n, node.inputs[at], node.inputs[1 - at])]
    return next(iter([*known, *own]), None)


def _function_of(n: Node, tensor: Any, argument: Any) -> bool:
    """Whether a tensor follows from the argument alone, value by value; constant factors of the argument aside."""
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
        fresh = [each for each in maker.inputs if each.name in n.activations and each.name not in seen]
        seen.update(each.name for each in fresh)
        stack += fresh
    return True


def _unscaled(n: Node, tensor: Any) -> set[str]:
    """The names of a tensor and of what it is a constant multiple of."""
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
    """The positions of the inputs that carry the activations on: no weights, no gates, no mean that is taken off."""
    if node.op in NORMS:
        return [0]
    varying = [at for at, tensor in enumerate(node.inputs) if tensor.name in n.activations and not held(n, tensor)]
    if len(varying) != 2:
        return varying
    if node.op == "Div" or centres(node):
        return varying[:1]
    gates = {gate_at(n, node), *(at for at in varying if node.op == "Mul" and _divides(node.inputs[at]))}
    return [at for at in varying if at not in gates]


def _divides(tensor: Any) -> bool:
    """Whether a factor is one over something, so that the product is a quotient."""
    tensor = _unrounded(tensor)
    return bool(tensor.inputs) and tensor.inputs[0].op == "Reciprocal"


def centres(node: Any) -> bool:
    """Whether a node takes off the mean of what it reads, or the maximum as a softmax does to stay finite."""
    if node.op != "Sub":
        return False
    makers = [maker for maker in _unrounded(node.inputs[1]).inputs if maker.op in ("ReduceMean", "ReduceMax")]
    return any(_unrounded(maker.inputs[0]) is _unrounded(node.inputs[0]) for maker in makers)


def _unrounded(tensor: Any) -> Any:
    """The tensor before it was cast or put on a grid."""
    while tensor.inputs and tensor.inputs[0].op in ROUNDS:
        tensor = tensor.inputs[0].inputs[0]
    return tensor


def carries(n: Node) -> list[int]:
    """The positions of the signals among the inputs of the node itself."""
    return signals(n, n.y.tensor.inputs[0])


def is_product(n: Node, node: Any) -> bool:
    """Whether two activations are multiplied as matrices."""
    return node.op in PRODUCTS and all(tensor.name in n.activations for tensor in node.inputs[:2])


def in_attention(n: Node) -> bool:
    """Whether a product of two activations stands next to this one: it makes queries, keys, values or their output."""
    return _meets_product(n, n.y.tensor, up=False) or any(
        _meets_product(n, n.x[index].tensor, up=True) for index in range(len(n.x)) if n.varies(index)
    )


def _meets_product(n: Node, start: Any, *, up: bool) -> bool:
    """Through nodes that move, scale or normalise tokens, but through no weights and no sum of two signals."""
    stack, seen = [start], {start.name}
    while stack:
        tensor = stack.pop()
        for node in tensor.inputs if up else readers(n, tensor):
            if is_product(n, node):
                return True
            if not _moves_on(n, node):
                continue
            around = [node.inputs[at] for at in signals(n, node)] if up else [*node.outputs]
            fresh = [other for other in around if other.name in n.activations and other.name not in seen]
            seen.update(other.name for other in fresh)
            stack += fresh
    return False


def _moves_on(n: Node, node: Any) -> bool:
    return node.op in LAYOUT | NORMS or (node.op in BINARY and len(signals(n, node)) == 1)


def embeds(n: Node) -> bool:
    """Whether no product stands between the image and this one: it makes the patches."""
    stack, seen = [n.x[index].tensor for index in range(len(n.x)) if n.varies(index)], set()
    while stack:
        for node in stack.pop().inputs:
            if node.op in PRODUCTS:
                return False
            if id(node) not in seen:
                seen.add(id(node))
                stack += [tensor for tensor in node.inputs if tensor.name in n.activations]
    return True
