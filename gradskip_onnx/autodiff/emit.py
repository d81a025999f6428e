"""Writes nodes into a graph: `Emit` names and shares them, `Sym` lets a rule read like its formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from gradskip_onnx.autodiff import dims as shapes
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.types import Array, Dims, TensorFact

PREFIX = "gradskip/"
OLDEST_OPSET = 13  # Squeeze, Unsqueeze and ReduceSum take their axes as an input from here on
AXES_INPUT_OPSET = 18  # the other reductions follow
SMALL = 4096  # elements; a constant above this is a weight and is never read

Scalar = float | int | bool
DType = np.dtype[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Sym:
    """A tensor of the graph, with the arithmetic that appends nodes to it."""

    emit: Emit
    tensor: Any  # gs.Tensor
    dtype: DType
    dims: Dims

    @property
    def name(self) -> str:
        return str(self.tensor.name)

    @property
    def rank(self) -> int:
        return len(self.dims)

    def apply(self, op: str, *others: Sym | Scalar, dtype: Any = None, **attrs: Any) -> Sym:
        """An elementwise operator; the dimensions broadcast."""
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
        return self.apply("Equal", other, dtype=bool)

    def where(self, yes: Sym, no: Sym | Scalar) -> Sym:
        """`yes` where this (boolean) tensor holds, `no` elsewhere."""
        other = yes.lift(no)
        return self.apply("Where", yes, other, dtype=yes.dtype)

    def cast(self, dtype: Any) -> Sym:
        if np.dtype(dtype) == self.dtype:
            return self
        to = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.emit.op("Cast", self, dims=self.dims, dtype=dtype, to=int(to))

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
        """New dimensions; with two or more unknown ones the shape is read off `like` at run time."""
        if dims == self.dims and dims.count(None) < 2:
            return self
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
        """Size-one axes at the places `axes` of the result."""
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
        known = [size for size in stretch if size is not None]
        shape = self.emit.ints(known) if len(known) == len(stretch) else self.emit.shape(other)
        return self.emit.op("Expand", self, shape, dims=other.dims)

    def cut(self, axis: int, start: int, stop: int, step: int = 1) -> Sym:
        """The entries start, start + step, ... before `stop` along an axis (all counted from the front)."""
        bounds = [self.emit.ints([number]) for number in (start, stop, axis, step)]
        dims = (*self.dims[:axis], len(range(start, stop, step)), *self.dims[axis + 1 :])
        return self.emit.op("Slice", self, *bounds, dims=dims)

    def pad(self, axis: int, before: int, after: int) -> Sym:
        """Zeros before and after along one axis."""
        size = self.dims[axis]
        if not before and not after:
            return self
        pads = [0] * (2 * self.rank)
        pads[axis], pads[self.rank + axis] = before, after
        dims = (*self.dims[:axis], None if size is None else size + before + after, *self.dims[axis + 1 :])
        return self.emit.op("Pad", self, self.emit.ints(pads), dims=dims)

    def along(self, axis: int, matrix: Array) -> Sym:
        """Multiply the vectors along one axis by a constant matrix (old size, new size)."""
        order = [*(a for a in range(self.rank) if a != axis), axis]
        moved = self.transpose(order) @ self.emit.const(matrix, self.dtype)
        return moved.transpose([order.index(a) for a in range(self.rank)])


class Emit:
    """Appends nodes to a graphsurgeon graph that the caller owns; equal nodes are written once."""

    def __init__(self, graph: Any, facts: Mapping[str, TensorFact], opset: int) -> None:
        if opset < OLDEST_OPSET:
            raise UnsupportedModelError(
                "old-opset", f"the model uses opset {opset}; gradients need {OLDEST_OPSET} or newer: export it again"
            )
        self.graph, self.facts, self.opset = graph, facts, opset
        self._tensors: dict[str, Any] = {name: tensor for name, tensor in graph.tensors().items() if name}
        self._taken = {*self._tensors, *(node.name for node in graph.nodes)}
        self._written: dict[Any, tuple[Sym, ...]] = {}

    def sym(self, name: str) -> Sym:
        """The tensor called `name`."""
        tensor = self._tensors.get(name)
        if tensor is None:
            raise UnsupportedModelError("no-tensor", f"the graph has no tensor {name!r}")
        if name in self.facts:
            return Sym(self, tensor, np.dtype(self.facts[name].dtype), tuple(self.facts[name].dims))
        if isinstance(tensor, gs.Constant):
            return Sym(self, tensor, np.dtype(tensor.dtype), tuple(tensor.shape))
        raise UnsupportedModelError("no-shape", f"the shape of {name!r} is not known; it was missing in the dry run")

    def value(self, name: str) -> Array | None:
        """The value of a small constant (an axis list, a scale), or None; weights are never read."""
        tensor = self._tensors.get(name)
        while isinstance(tensor, gs.Variable) and tensor.inputs and tensor.inputs[0].op == "Identity":
            tensor = tensor.inputs[0].inputs[0]
        if isinstance(tensor, gs.Variable) and tensor.inputs and tensor.inputs[0].op == "Constant":
            found = next(iter(tensor.inputs[0].attrs.values()))
            tensor = found if isinstance(found, gs.Constant) else gs.Constant("", np.asarray(found))
        if isinstance(tensor, gs.Constant) and int(np.prod(tensor.shape)) <= SMALL:
            return np.asarray(tensor.values)
        return None

    def const(self, value: Any, dtype: Any) -> Sym:
        """A constant of the given element type, shared with every equal one."""
        array = np.asarray(value, dtype=dtype)
        key = ("const", array.dtype.str, array.shape, array.tobytes())
        if key not in self._written:
            tensor = gs.Constant(self._name("constant"), array)
            self._written[key] = (Sym(self, tensor, array.dtype, array.shape),)
        return self._written[key][0]

    def ints(self, values: Sequence[int]) -> Sym:
        return self.const(np.asarray(values, dtype=np.int64).reshape(-1), np.int64)

    def shape(self, x: Sym) -> Sym:
        """The dimensions of `x` as seen at run time."""
        return self.op("Shape", x, dims=(x.rank,), dtype=np.int64)

    def zeros_like(self, x: Sym) -> Sym:
        return self.const(0, x.dtype).expand_like(x)

    def count(self, x: Sym, axes: Sequence[int], dtype: Any) -> Sym:
        """How many elements lie along `axes`, where that follows the batch size."""
        sizes = self.op("Gather", self.shape(x), self.ints(axes), dims=(len(axes),))
        return self.reduce("ReduceProd", sizes, [0]).cast(dtype)

    def reduce(self, op: str, x: Sym, axes: Sequence[int], keepdims: bool = True) -> Sym:
        """A reduction over `axes`, in the form this opset asks for."""
        places = shapes.axes(x.rank, axes)
        if not places:
            return x
        dims = shapes.reduced(x.dims, places, keepdims)
        if op == "ReduceSum" or self.opset >= AXES_INPUT_OPSET:
            return self.op(op, x, self.ints(places), dims=dims, keepdims=int(keepdims))
        return self.op(op, x, dims=dims, axes=list(places), keepdims=int(keepdims))

    def op(self, op: str, *inputs: Sym, dims: Dims, dtype: Any = None, **attrs: Any) -> Sym:
        """Append one node with one output; `dtype` defaults to that of the first input."""
        kind = inputs[0].dtype if dtype is None else dtype
        return self.ops(op, *inputs, dims=[dims], dtypes=[kind], **attrs)[0]

    def ops(self, op: str, *inputs: Sym, dims: Sequence[Dims], dtypes: Sequence[Any], **attrs: Any) -> tuple[Sym, ...]:
        """Append one node with as many outputs as `dims` has entries."""
        key = (op, tuple(x.name for x in inputs), repr(sorted(attrs.items())), len(dims))
        if key not in self._written:
            outputs = tuple(self._output(op, size, dtype) for size, dtype in zip(dims, dtypes, strict=True))
            node = gs.Node(
                op, self._name(op), attrs, inputs=[x.tensor for x in inputs], outputs=[y.tensor for y in outputs]
            )
            self.graph.nodes.append(node)
            self._written[key] = outputs
        return self._written[key]

    def _output(self, op: str, dims: Dims, dtype: Any) -> Sym:
        tensor = gs.Variable(self._name(f"{op}_out"), np.dtype(dtype), list(dims))
        self._tensors[tensor.name] = tensor
        return Sym(self, tensor, np.dtype(dtype), dims)

    def _name(self, stem: str) -> str:
        name, number = f"{PREFIX}{stem}", len(self._taken)
        while f"{name}_{number}" in self._taken:
            number += 1
        self._taken.add(f"{name}_{number}")
        return f"{name}_{number}"

    def drop_unused(self, since: int, keep: Sequence[Sym]) -> None:
        """Remove the nodes written from position `since` on that lead to none of `keep`."""
        wanted = {sym.name for sym in keep}
        kept: list[Any] = []
        for node in reversed(self.graph.nodes[since:]):
            if any(output.name in wanted for output in node.outputs):
                wanted.update(tensor.name for tensor in node.inputs)
                kept.append(node)
            else:
                for output in node.outputs:
                    del self._tensors[output.name]
                node.inputs.clear()
                node.outputs.clear()
        self.graph.nodes[since:] = reversed(kept)
        self._written = {
            key: syms
            for key, syms in self._written.items()
            if key[0] == "const" or all(sym.name in self._tensors for sym in syms)
        }
