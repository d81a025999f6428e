"""Factors that a later factor takes back are cancelled where they meet, not computed.

The gradient of a quantised tensor is in steps of its grid: dequantising multiplies it by the scale, quantising divides
it by the same scale, and between the two there are products and changes of layout at most.
"""

from __future__ import annotations

from math import isclose
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from .partial_gradients import Piece
from .sym import Sym

LAYOUT = frozenset({"Reshape", "Transpose", "Unsqueeze", "Squeeze"})
ONE = 1e-6  # a product of factors this close to 1 is 1: scales are float32


def times(x: Sym | Piece, factor: float) -> Any:
    """`x` times a number, which joins a number that x was multiplied by before."""
    if isinstance(x, Piece):
        return x.with_part(times(x.part, factor))
    joined = _times(x, factor)
    return x * factor if joined is None else joined


def _times(x: Sym, factor: float) -> Sym | None:
    """`times` if x has a number among its factors, else None."""
    node = _maker(x)
    if node is None:
        return None
    first = x.emit.as_sym(node.inputs[0])
    if node.op == "Mul" and (number := _number(node.inputs[1])) is not None:
        return first if isclose(number * factor, 1, rel_tol=ONE) else first * (number * factor)
    inner = _times(first, factor) if node.op in LAYOUT else None
    return None if inner is None else _again(x, node, inner)


def over(x: Sym, divisor: Sym) -> Sym:
    """`x` divided by a tensor with one element, which is one of the factors of x as a rule."""
    cancelled = _over(x, divisor)
    return x / divisor if cancelled is None else cancelled


def _over(x: Sym, divisor: Sym) -> Sym | None:
    """`over` if the divisor is a factor of x, else None."""
    node = _maker(x)
    if node is None:
        return None
    first = x.emit.as_sym(node.inputs[0])
    if node.op == "Mul":
        rest = _rest(x, node, divisor)
        return None if rest is None else first if isinstance(rest, int) else first * rest
    if node.op == "Add":
        parts = [_over(x.emit.as_sym(term), divisor) for term in node.inputs]
        return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
    if node.op == "MatMul":
        return _product_over(x, node, divisor)
    inner = _over(first, divisor) if node.op in LAYOUT else None
    return None if inner is None else _again(x, node, inner)


def _product_over(x: Sym, node: Any, divisor: Sym) -> Sym | None:
    """(a s r) W over s is a (r W), and r W is a constant where r is a scale of the weight."""
    left, weight = (x.emit.as_sym(tensor) for tensor in node.inputs)
    factor = _maker(left)
    rest = _rest(left, factor, divisor) if factor is not None and factor.op == "Mul" else None
    if factor is None or rest is None:
        inner = _over(left, divisor)
        return None if inner is None else inner @ weight
    a = x.emit.as_sym(factor.inputs[0])
    if isinstance(rest, int):
        return a @ weight
    if not isinstance(rest.tensor, gs.Constant) or rest.rank > 1:
        return (a * rest) @ weight
    return a @ ((rest.unsqueeze(1) if rest.rank and rest.dims[0] != 1 else rest) * weight)


def _rest(x: Sym, product: Any, divisor: Sym) -> Sym | int | None:
    """What is left of the second factor of a product over `divisor`: a factor, 1, or None if that is no factor."""
    second = product.inputs[1]
    if product.inputs[0].name == divisor.name or x.dims != x.emit.as_sym(product.inputs[0]).dims:
        return None
    if second.name == divisor.name:
        return 1
    maker = second.inputs[0] if second.inputs else None
    if maker is None or maker.op != "Mul" or divisor.name not in (names := [tensor.name for tensor in maker.inputs]):
        return None
    return x.emit.as_sym(maker.inputs[1 - names.index(divisor.name)])


def _maker(x: Sym) -> Any | None:
    """The node of the backward pass that made a tensor, from tensors that are known."""
    node = x.tensor.inputs[0] if x.tensor.inputs else None
    return node if node is not None and x.emit.wrote(node) and all(map(x.emit.has, node.inputs)) else None


def _number(tensor: Any) -> float | None:
    if not isinstance(tensor, gs.Constant) or int(np.prod(tensor.shape)) != 1:
        return None
    return float(np.asarray(tensor.values).reshape(-1)[0])


def _again(x: Sym, node: Any, inner: Sym) -> Sym:
    """A change of layout, of another tensor."""
    others = [x.emit.as_sym(tensor) for tensor in node.inputs[1:]]
    return x.emit.op(node.op, inner, *others, dims=x.dims, **node.attrs)
