"""A product of activations and weights as a linear map that can be applied, transposed and separated from its bias."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gradskip_onnx.autodiff.emit import Sym
from gradskip_onnx.autodiff.rules.table import VJPS, Inputs, Node
from gradskip_onnx.autodiff.rules.vjps_norm import per_channel
from gradskip_onnx.autodiff.rules.vjps_quantised import centred

from .gates import is_held, readers

REAL = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}  # integer product -> the same product of real numbers


@dataclass(frozen=True, slots=True, eq=False)
class Operands(Inputs):
    """Tensors that replace the inputs of a node."""

    syms: tuple[Sym, ...] = ()

    def __getitem__(self, index: int) -> Sym:
        return self.syms[index]

    def __iter__(self) -> Iterator[Sym]:
        return iter(self.syms)


@dataclass(frozen=True, eq=False)
class Linear:
    """y = f(x, weight) + bias at a node; `at` is the position of the activation x."""

    n: Node
    at: int

    @cached_property
    def x(self) -> Sym:
        return self._real(self.at)

    @cached_property
    def weight(self) -> Sym:
        return self._real(1 - self.at)

    def _real(self, index: int) -> Sym:
        """An operand as real numbers: minus its zero point, for integers."""
        if self.n.op == "MatMulInteger":
            return centred(self.n, index, 2 + index, index - 2)
        return centred(self.n, index, 2 + index, 0) if self.n.op == "ConvInteger" else self.n.x[index]

    def _with(self, x: Sym, weight: Sym) -> Node:
        """The node with other operands and without a bias."""
        operands = (x, weight) if self.at == 0 else (weight, x)
        names = tuple(operand.name for operand in operands)
        needs_gradient = (self.at == 0, self.at == 1)
        inputs = Operands(self.n.emit, names, operands)
        return replace(self.n, op=REAL.get(self.n.op, self.n.op), x=inputs, needs_gradient=needs_gradient)

    def apply(self, x: Sym, weight: Sym) -> Sym:
        """f(x, weight), without the bias."""
        n = self._with(x, weight)
        attrs = {key: value for key, value in n.attrs.items() if key != "beta"}
        return n.emit.op(n.op, *n.x, dims=self.n.y.dims, **attrs)

    @property
    def sees_alike(self) -> bool:
        """Whether the output for an image of one colour is the same at every place: a convolution without padding."""
        attrs = self.n.attrs
        return (
            self.n.op == "Conv" and not any(attrs.get("pads", ())) and not attrs.get("auto_pad", "").startswith("SAME")
        )

    def of_centre(self, x: Sym) -> Sym:
        """f(x, weight); an image of one colour may be given as one pixel, and then there is one pixel of the output."""
        if x.dims == self.x.dims:
            return self.apply(x, self.weight)
        places = range(2, self.weight.rank)
        dims = (x.dims[0], self.n.y.dims[1], *(1 for _ in places))
        attrs = {"group": self.n.attrs.get("group", 1)}
        return x.emit.op("Conv", x, self.weight.sum(places), dims=dims, **attrs)

    def back(self, s: Sym, weight: Sym) -> Sym:
        """The transpose of the map f(., weight), applied to s."""
        n = self._with(self.x, weight)
        found = VJPS[n.op](n, s)[self.at]
        assert isinstance(found, Sym)  # products never fill only part of a tensor
        return found

    @cached_property
    def bias(self) -> Sym | None:
        """The bias per channel: an input of the node, or a constant added right after it; None if there is none."""
        n = self.n
        if n.op == "Gemm" and n.x.has(2):
            return n.x[2] * float(n.attrs.get("beta", 1.0))
        if n.op in ("Conv", "ConvTranspose") and n.x.has(2):
            return per_channel(n.x[2], n.y)
        return _bias_after(n)

    @cached_property
    def product(self) -> Sym:
        """f(x, weight) without the bias, from the output of the node."""
        y = self.n.y.cast(self.n.y.real)
        return y - self.bias if self._inside and self.bias is not None else y

    @cached_property
    def y(self) -> Sym:
        """f(x, weight) + bias, wherever the file adds the bias."""
        y = self.n.y.cast(self.n.y.real)
        return y if self._inside or self.bias is None else y + self.bias

    @property
    def _inside(self) -> bool:
        """Whether the bias is an input of the node."""
        return self.n.op in ("Gemm", "Conv", "ConvTranspose") and self.n.x.has(2)


def _bias_after(n: Node) -> Sym | None:
    """The bias that is added after the node, divided by the scales in between (integer products always have one)."""
    tensor, scale = n.y.tensor, None
    while len(following := readers(n, tensor)) == 1:
        node = following[0]
        other = next((source for source in node.inputs if source is not tensor), None)
        if node.op == "Add" and other is not None and _is_bias(n, other):
            bias = n.emit.sym(other.name)
            return bias if scale is None else bias / scale
        if node.op == "Mul" and other is not None and _is_scale(n, other):
            scale = n.emit.sym(other.name) if scale is None else scale * n.emit.sym(other.name)
        elif node.op != "Cast":
            return None
        tensor = node.outputs[0]
    return None


def _is_scale(n: Node, other: Any) -> bool:
    """Whether a factor is a scale: a constant or, for integers, a quantisation scale, which may depend on the image."""
    return other.name not in n.activations or (n.op in REAL and is_held(n, other))


def _is_bias(n: Node, other: Any) -> bool:
    """Whether a tensor is a constant with one value per output channel, or one for all; not a positional embedding."""
    if other.name in n.activations:
        return False
    sym = n.emit.sym(other.name)
    channel = 1 if "Conv" in n.op else n.y.rank - 1
    lead = n.y.rank - sym.rank
    return np.issubdtype(sym.dtype, np.floating) and all(
        size == 1 or lead + axis == channel for axis, size in enumerate(sym.dims)
    )
