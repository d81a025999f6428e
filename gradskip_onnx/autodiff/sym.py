"""A tensor of the graph with arithmetic operators, so that a gradient rule reads like its formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.surgeon.element_types import onnx_type
from gradskip_onnx.types import Array, Dims

from . import dims as shapes

if TYPE_CHECKING:
    from .emit import Emit

GPU_GAPS_OPSET = 19  # ONNX Runtime has no CUDA kernel for Pad and Equal from here on (its kernel table, issue 26393)

BEFORE_ALL = -(2**31)  # the end of a slice that runs backwards through the first entry

Scalar = float | int | bool


@dataclass(frozen=True, slots=True, eq=False)
class Sym:
    """A tensor of the graph; arithmetic on it appends nodes to the graph."""

    emit: Emit
    tensor: Any  # gs.Tensor
    dtype: np.dtype[Any]
    dims: Dims

    @property
    def name(self) -> str:
        return str(self.tensor.name)

    @property
    def rank(self) -> int:
        return len(self.dims)

    def apply(self, op: str, *others: Sym | Scalar, dtype: Any = None, **attrs: Any) -> Sym:
        """Apply an elementwise operator; the dimensions broadcast."""
        operands = (self, *(self.lift(other) for other in others))
        dims = shapes.broadcast(*(operand.dims for operand in operands))
        return self.emit.op(op, *operands, dims=dims, dtype=dtype, **attrs)

    def lift(self, other: Sym | Scalar) -> Sym:
        return other if isinstance(other, Sym) else self.emit.const(other, self.dtype)

    def __add__(self, other: Sym | Scalar) -> Sym:
        return self.apply("Add", other)

    def __radd__(self, other: Scalar) -> Sym:
        return self.apply("Add", other)

    def __sub__(self, other: Sym | Scalar) -> Sym:
        return self.apply("Sub", other)

    def __rsub__(self, other: Scalar) -> Sym:
        return self.lift(other).apply("Sub", self)

    def __mul__(self, other: Sym | Scalar) -> Sym:
        return self.apply("Mul", other)

    def __rmul__(self, other: Scalar) -> Sym:
        return self.apply("Mul", other)

    def __truediv__(self, other: Sym | Scalar) -> Sym:
        return self.apply("Div", other)

    def __rtruediv__(self, other: Scalar) -> Sym:
        return self.lift(other).apply("Div", self)

    def __neg__(self) -> Sym:
        return self.apply("Neg")

    def __matmul__(self, other: Sym) -> Sym:
        return self.emit.op("MatMul", self, other, dims=shapes.matmul(self.dims, other.dims))

    def __gt__(self, other: Sym | Scalar) -> Sym:
        return self.apply("Greater", other, dtype=bool)

    def __lt__(self, other: Sym | Scalar) -> Sym:
        return self.apply("Less", other, dtype=bool)

    def equals(self, other: Sym | Scalar) -> Sym:
        if self.emit.opset < GPU_GAPS_OPSET:
            return self.apply("Equal", other, dtype=bool)
        return (self > other).apply("Or", self < other).apply("Not")

    def where(self, yes: Sym, no: Sym | Scalar) -> Sym:
        """`yes` where this (boolean) tensor holds, `no` elsewhere."""
        other = yes.lift(no)
        return self.apply("Where", yes, other, dtype=yes.dtype)

    @property
    def real(self) -> np.dtype[Any]:
        """The element type of a gradient at this tensor."""
        return self.dtype if np.issubdtype(self.dtype, np.floating) else np.dtype(np.float32)

    def sign(self) -> Sym:
        """-1, 0 or 1. In float32 as a clipped multiple, four times quicker than Sign; below 1e-38 it may be smaller."""
        if self.dtype != np.float32:
            return self.apply("Sign")
        largest = float(np.finfo(np.float32).max)
        return (self * largest).apply("Clip", -1.0, 1.0)

    def cast(self, dtype: Any) -> Sym:
        if np.dtype(dtype) == self.dtype:
            return self
        return self.emit.op("Cast", self, dims=self.dims, dtype=dtype, to=onnx_type(dtype))

    def scaled(self, factor: float) -> Sym:
        """This tensor times a number; if it is the result of a Gemm, the number goes into the Gemm at no cost."""
        node = self.tensor.inputs[0] if self.tensor.inputs else None
        if node is not None and node.op == "Gemm" and len(node.inputs) == 2 and self.emit.wrote(node):
            attrs = {**node.attrs, "alpha": node.attrs.get("alpha", 1.0) * factor}
            return self.emit.op("Gemm", *map(self.emit.as_sym, node.inputs), dims=self.dims, **attrs)
        if node is not None and node.op == "Reshape" and self.emit.wrote(node):
            return self.emit.as_sym(node.inputs[0]).scaled(factor).reshape(self.dims)
        return self * factor

    def sum(self, axes: Sequence[int], keepdims: bool = True) -> Sym:
        return self.emit.reduce("ReduceSum", self, axes, keepdims)

    def mean(self, axes: Sequence[int], keepdims: bool = True) -> Sym:
        return self.emit.reduce("ReduceMean", self, axes, keepdims)

    @property
    def mT(self) -> Sym:  # noqa: N802 (the name NumPy and torch use)
        order = list(range(self.rank))
        order[-2:] = order[-1], order[-2]
        return self.transpose(order)

    def transpose(self, perm: Sequence[int]) -> Sym:
        if list(perm) == list(range(self.rank)):
            return self
        dims = tuple(self.dims[axis] for axis in perm)
        return self.emit.op("Transpose", self, dims=dims, perm=[int(axis) for axis in perm])

    def reshape(self, dims: Dims, like: Sym | None = None) -> Sym:
        """Reshape to `dims`; with two or more unknown sizes the shape is that of `like` at run time."""
        if dims == self.dims and dims.count(None) < 2:
            return self
        maker = self.tensor.inputs[0] if self.tensor.inputs else None
        if maker is not None and maker.op == "Reshape" and self.emit.wrote(maker) and self.emit.has(maker.inputs[0]):
            return self.emit.as_sym(maker.inputs[0]).reshape(dims, like)
        if dims.count(None) < 2:
            shape = self.emit.ints([-1 if size is None else size for size in dims])
        elif like is not None:
            shape = self.emit.shape(like)
        else:
            raise UnsupportedModelError(
                "dynamic-shape",
                f"cannot reshape {self.name!r} to {dims}: more than one size is unknown; fix the input size",
            )
        return self.emit.op("Reshape", self, shape, dims=dims)

    def reshape_like(self, other: Sym) -> Sym:
        return self.reshape(other.dims, other)

    def unsqueeze(self, *axes: int) -> Sym:
        """Insert axes of size one, at the positions `axes` of the result."""
        rank = self.rank + len(axes)
        places = shapes.axes(rank, axes)
        rest = iter(self.dims)
        dims = tuple(1 if axis in places else next(rest) for axis in range(rank))
        return self.emit.op("Unsqueeze", self, self.emit.ints(places), dims=dims)

    def squeeze(self, *axes: int) -> Sym:
        places = shapes.axes(self.rank, axes)
        dims = shapes.reduced(self.dims, places, keepdims=False)
        return self.emit.op("Squeeze", self, self.emit.ints(places), dims=dims)

    def expand_like(self, other: Sym) -> Sym:
        """Broadcast to the dimensions of `other`."""
        dims = (1,) * (other.rank - self.rank) + self.dims
        if dims == other.dims:
            return self
        stretch = [1 if mine == theirs else theirs for mine, theirs in zip(dims, other.dims, strict=True)]
        fixed = [size for size in stretch if size is not None]
        shape = self.emit.ints(fixed) if len(fixed) == len(stretch) else self.emit.shape(other)
        return self.emit.op("Expand", self, shape, dims=other.dims)

    def cut(self, axis: int, start: int, stop: int, step: int = 1) -> Sym:
        """The entries start, start + step, ... before `stop` along an axis, all non-negative."""
        bounds = [self.emit.ints([number]) for number in (start, stop, axis, step)]
        dims = (*self.dims[:axis], len(range(start, stop, step)), *self.dims[axis + 1 :])
        return self.emit.op("Slice", self, *bounds, dims=dims)

    def flipped(self, axes: Sequence[int]) -> Sym:
        """The entries along some axes in reverse order."""
        count = len(axes)
        bounds = [self.emit.ints(numbers) for numbers in ([-1] * count, [BEFORE_ALL] * count, axes, [-1] * count)]
        return self.emit.op("Slice", self, *bounds, dims=self.dims)

    def pad(self, axis: int, before: int, after: int) -> Sym:
        """Add `before` and `after` zeros at the ends of one axis."""
        if not before and not after:
            return self
        size = self.dims[axis]
        dims = (*self.dims[:axis], None if size is None else size + before + after, *self.dims[axis + 1 :])
        if self.emit.opset < GPU_GAPS_OPSET:
            pads = [0] * (2 * self.rank)
            pads[axis], pads[self.rank + axis] = before, after
            return self.emit.op("Pad", self, self.emit.ints(pads), dims=dims)
        parts = [self.emit.zeros(self, axis, before), self, self.emit.zeros(self, axis, after)]
        parts = [part for part in parts if part.dims[axis] != 0]
        return self.emit.op("Concat", *parts, dims=dims, axis=axis)

    def along(self, axis: int, matrix: Array) -> Sym:
        """Multiply the vectors along one axis by a constant matrix (old size, new size)."""
        if axis == self.rank - 2:
            return self.emit.const(matrix.T, self.dtype) @ self  # from the left: no transposition needed
        return self.times(axis, self.emit.const(matrix, self.dtype))

    def times(self, axis: int, matrix: Sym) -> Sym:
        """Multiply the vectors along one axis by a matrix (old size, new size)."""
        if self.rank == 1:
            return (self.unsqueeze(0) @ matrix).squeeze(0)
        order = [*(a for a in range(self.rank) if a != axis), axis]
        return (self.transpose(order) @ matrix).transpose([order.index(a) for a in range(self.rank)])
