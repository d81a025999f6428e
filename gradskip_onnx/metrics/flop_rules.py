"""Three tables by operator: multiply-accumulates of products, operations of other work, and operators without cost.

Costs per value are columns of `operators.py`; here are the operators whose cost depends on several shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import onnx

from gradskip_onnx.errors import ModelError
from gradskip_onnx.operators import MICROSOFT, OPERATORS

Shape = tuple[int, ...]
TAPS = {"nearest": 0, "linear": 8, "cubic": 32}  # operations per output of Resize on two axes, two per tap


@dataclass(frozen=True, slots=True)
class Node:
    """A node with the shapes of its inputs and outputs; that of an omitted input is ()."""

    key: str  # operator, with its domain in front unless it is that of ONNX
    name: str
    x: tuple[Shape, ...]
    y: tuple[Shape, ...]
    present: tuple[bool, ...]  # per input: False if it is omitted
    attrs: Mapping[str, Any]

    @classmethod
    def of(cls, proto: onnx.NodeProto, shapes: Mapping[str, Shape]) -> Node:
        """The node of a proto; a missing shape raises ModelError."""
        domain = "" if proto.domain in ("", "ai.onnx") else f"{proto.domain}."
        missing = [name for name in (*proto.input, *proto.output) if name and name not in shapes]
        if missing:
            raise ModelError(f"node {proto.name!r} ({proto.op_type}): the shape of {missing[0]!r} is not known")
        return cls(
            key=domain + proto.op_type,
            name=proto.name,
            x=tuple(shapes.get(name, ()) for name in proto.input),
            y=tuple(shapes.get(name, ()) for name in proto.output),
            present=tuple(bool(name) for name in proto.input),
            attrs={entry.name: onnx.helper.get_attribute_value(entry) for entry in proto.attribute},
        )

    def has(self, position: int) -> bool:
        """Whether the optional input is present."""
        return position < len(self.present) and self.present[position]


Rule = Callable[[Node], int]


def matmul(n: Node) -> int:
    """Each value of the result sums over the last axis of the first operand."""
    return prod(n.y[0]) * n.x[0][-1]


def fused_matmul(n: Node) -> int:
    """As matmul; the first operand may be transposed."""
    return prod(n.y[0]) * n.x[0][-2 if n.attrs.get("transA") else -1]


def gemm(n: Node) -> int:
    """As matmul; the first operand may be transposed."""
    return prod(n.y[0]) * n.x[0][0 if n.attrs.get("transA") else 1]


def _conv(weight: int) -> Rule:
    """Each value of the result sums over one filter; `weight` is the position of the filters."""
    return lambda n: prod(n.y[0]) * prod(n.x[weight][1:])


def conv_transpose(n: Node) -> int:
    """Each value of the input is spread over one filter."""
    return prod(n.x[0]) * prod(n.x[1][1:])


def einsum(n: Node) -> int:
    """One multiply-accumulate per combination of all indices and per operand after the first."""
    equation = n.attrs["equation"].decode().replace(" ", "").replace("...", ".")
    sizes: dict[Any, int] = {}
    for term, shape in zip(equation.split("->")[0].split(","), n.x, strict=True):
        hidden = len(shape) - len(
            term.replace(".", "")
        )  # number of axes of the ellipsis, which are named from the last
        before, dots, after = term.partition(".")
        letters = [*before, *(range(-hidden, 0) if dots else ()), *after]
        for letter, size in zip(letters, shape, strict=True):
            sizes[letter] = max(sizes.get(letter, 1), size)
    return prod(sizes.values()) * (len(n.x) - 1)


def attention(n: Node) -> int:
    """Q Kᵀ and A V: each value of Q and each value of the result takes one multiply-accumulate per key."""
    return (prod(n.x[0]) + prod(n.y[0])) * _keys(n)


def multi_head_attention(n: Node) -> int:
    """As attention; Q, K and V may come in one tensor (B, S, heads, 3, d)."""
    packed = len(n.x[0]) == 5
    return (prod(n.x[0]) // (3 if packed else 1) + prod(n.y[0])) * _keys(n)


def packed_attention(n: Node) -> int:
    """The projection of the input (B, S, d) by a weight (d, q + k + v), then attention."""
    batch, tokens, width = n.x[0]
    columns, values = n.x[1][-1], n.y[0][-1]
    queries = (columns - values) // 2
    return batch * tokens * (width * columns + tokens * (queries + values))


def _keys(n: Node) -> int:
    if len(n.x[0]) == 5 or not n.has(1):
        return n.x[0][1]
    return n.x[1][1] if len(n.x[1]) == 5 else n.x[1][-2]


PRODUCTS: dict[str, Rule] = {
    "MatMul": matmul,
    "MatMulInteger": matmul,
    "QLinearMatMul": matmul,
    "Gemm": gemm,
    "Conv": _conv(1),
    "ConvInteger": _conv(1),
    "QLinearConv": _conv(3),
    "ConvTranspose": conv_transpose,
    "Einsum": einsum,
    "Attention": attention,
    MICROSOFT + "FusedMatMul": fused_matmul,
    MICROSOFT + "FusedGemm": gemm,
    MICROSOFT + "GemmFastGelu": matmul,
    MICROSOFT + "QGemm": gemm,
    MICROSOFT + "MatMulNBits": matmul,
    MICROSOFT + "MatMulIntegerToFloat": matmul,
    MICROSOFT + "DynamicQuantizeMatMul": matmul,
    MICROSOFT + "FusedConv": _conv(1),
    MICROSOFT + "Attention": packed_attention,
    MICROSOFT + "QAttention": packed_attention,
    MICROSOFT + "MultiHeadAttention": multi_head_attention,
}


def _each_result(cost: int) -> Rule:
    return lambda n: cost * prod(n.y[0])


def _each_value(cost: int) -> Rule:
    return lambda n: cost * prod(n.x[0])


def _bias(position: int) -> Rule:
    return lambda n: prod(n.y[0]) if n.has(position) else 0


def _softmax_inside(n: Node) -> int:
    """The softmax: five operations per query, key and head."""
    heads = n.attrs.get("num_heads") or n.attrs.get("q_num_heads") or n.x[0][1]
    queries = n.x[0][-2] if len(n.x[0]) < 5 else n.x[0][1]
    keys = n.x[0][1] if n.key.endswith(("microsoft.Attention", "QAttention")) else _keys(n)
    return 5 * n.x[0][0] * int(heads) * queries * keys


def _pool(n: Node) -> int:
    return prod(n.y[0]) * int(prod(n.attrs["kernel_shape"]))


def _resize(n: Node) -> int:
    return TAPS[n.attrs.get("mode", b"nearest").decode()] * prod(n.y[0])


def _scatter(n: Node) -> int:
    """One operation per update with a reduction; without one it is a copy."""
    return prod(n.x[2]) if n.attrs.get("reduction", b"none") != b"none" else 0


SIMPLE: dict[str, Rule] = {
    **{name: _each_result(operator.per_result) for name, operator in OPERATORS.items() if operator.per_result},
    **{name: _each_value(operator.per_value) for name, operator in OPERATORS.items() if operator.per_value},
    "Sum": lambda n: (len(n.x) - 1) * prod(n.y[0]),
    "Mean": lambda n: len(n.x) * prod(n.y[0]),
    "Gemm": _bias(2),
    "Conv": _bias(2),
    "QLinearConv": _bias(8),
    "ConvTranspose": _bias(2),
    "Attention": _softmax_inside,
    MICROSOFT + "FusedGemm": _bias(2),
    MICROSOFT + "FusedConv": _bias(2),
    MICROSOFT + "Attention": _softmax_inside,
    MICROSOFT + "QAttention": _softmax_inside,
    MICROSOFT + "MultiHeadAttention": _softmax_inside,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "Resize": _resize,
    "ScatterND": _scatter,
    "ScatterElements": _scatter,
}

FREE = frozenset(name for name, operator in OPERATORS.items() if operator.per_result == 0)
