"""What stands at an operator: signals or gates, and whether a product with weights belongs to an attention."""

from __future__ import annotations

from typing import Any

from gradskip_onnx.autodiff.rules.table import Node

PRODUCTS = frozenset({"MatMul", "Gemm", "Einsum", "Conv", "ConvTranspose", "MatMulInteger", "ConvInteger"})
BINARY = frozenset({"Add", "Sub", "Mul", "Div"})
LAYOUT = frozenset(
    {"Identity", "Cast", "CastLike", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Dropout"}
    | {"Slice", "Split", "Gather", "Concat", "Pad", "Where", "QuantizeLinear", "DequantizeLinear"}
    | {"DynamicQuantizeLinear", "Clip", "Max", "Min"}
)
ROUNDS = frozenset({"Identity", "Cast", "QuantizeLinear", "DequantizeLinear"})
NORMS = frozenset({"LayerNormalization", "RMSNormalization", "BatchNormalization", "LpNormalization"})
# What opens or closes a gate, or measures the spread that a normalisation divides by.
GATES = frozenset({"Erf", "Tanh", "Sigmoid", "HardSigmoid", "Sqrt", "ReduceL2"})
MOST_HOPS = 16  # a gate stands near the operator that makes it


def readers(n: Node, tensor: Any) -> list[Any]:
    """The forward nodes that read a tensor; those of the backward pass made no tensor that the dry run saw."""
    return [node for node in tensor.outputs if any(output.name in n.emit.facts for output in node.outputs)]


def readers_behind(n: Node, tensor: Any) -> list[Any]:
    """The same, of the tensor as it is or after it was cast or put on a grid."""
    found = []
    for node in readers(n, tensor):
        found += readers_behind(n, node.outputs[0]) if node.op in ROUNDS else [node]
    return found


def held(n: Node, tensor: Any, hops: int = MOST_HOPS) -> bool:
    """Whether an activation is but a gate, a spread or a scale: what rule sets hold constant."""
    if not tensor.inputs or not hops:
        return False
    node = tensor.inputs[0]
    if node.op in GATES or (node.op == "DynamicQuantizeLinear" and tensor is not node.outputs[0]):
        return True
    if node.op not in LAYOUT | BINARY | {"Reciprocal", "Neg"}:
        return False
    varying = [source for source in node.inputs if source.name in n.activations]
    return bool(varying) and all(held(n, source, hops - 1) for source in varying)


def signals(n: Node, node: Any) -> list[Any]:
    """The inputs of a node that carry the activations on: no weights, no gates, no mean that is taken off."""
    if node.op in NORMS:
        return [node.inputs[0]]
    varying = [tensor for tensor in node.inputs if tensor.name in n.activations and not held(n, tensor)]
    if len(varying) == 2 and (node.op == "Div" or centres(node)):
        return varying[:1]
    return varying


def centres(node: Any) -> bool:
    """Whether a node takes off the mean of what it reads."""
    if node.op != "Sub":
        return False
    mean = _unrounded(node.inputs[1])
    return any(
        maker.op == "ReduceMean" and _unrounded(maker.inputs[0]) is _unrounded(node.inputs[0]) for maker in mean.inputs
    )


def _unrounded(tensor: Any) -> Any:
    """The tensor before it was cast or put on a grid."""
    while tensor.inputs and tensor.inputs[0].op in ROUNDS:
        tensor = tensor.inputs[0].inputs[0]
    return tensor


def carries(n: Node) -> list[int]:
    """The positions of the signals among the inputs of the node itself."""
    names = {tensor.name for tensor in signals(n, n.y.tensor.inputs[0])}
    return [index for index, name in enumerate(n.x.names) if name in names]


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
            around = [*signals(n, node)] if up else [*node.outputs]
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
