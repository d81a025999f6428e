"""Appends nodes of known shape to a graph; equal nodes are written once and unused ones removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.surgeon.element_types import numpy_type
from gradskip_onnx.surgeon.node_writer import PREFIX, NodeWriter
from gradskip_onnx.surgeon.opsets import OLDEST_OPSET, reduction_axes
from gradskip_onnx.types import Array, Dims, TensorFact

from . import constants
from . import dims as shapes
from .sym import Sym

__all__ = ["Emit", "Sym"]


class Emit:
    """Appends nodes to a graphsurgeon graph that the caller owns; equal nodes are written once."""

    def __init__(self, graph: Any, facts: Mapping[str, TensorFact], opset: int, prefix: str = PREFIX) -> None:
        if opset < OLDEST_OPSET:
            raise UnsupportedModelError(
                "opset-too-old",
                f"the model uses opset {opset}; gradients need {OLDEST_OPSET} or newer: export it again",
            )
        self.graph, self.facts, self.opset = graph, facts, opset
        tensors = [*graph.tensors().values(), *graph.inputs]  # `tensors()` lacks inputs that no node reads
        self._tensors: dict[str, Any] = {tensor.name: tensor for tensor in tensors if tensor.name}
        self._nodes = NodeWriter(graph, opset, prefix)
        self._written: dict[Any, tuple[Sym, ...]] = {}  # key of a node or constant -> its outputs
        self._outputs: dict[str, Sym] = {}  # outputs of the nodes written here, by name

    def sym(self, name: str) -> Sym:
        """The tensor called `name`."""
        tensor = self._tensors.get(name)
        if tensor is None:
            raise UnsupportedModelError("no-tensor", f"the graph has no tensor {name!r}")
        if name in self.facts:
            return Sym(self, tensor, np.dtype(self.facts[name].dtype), tuple(self.facts[name].dims))
        if isinstance(tensor, gs.Constant):
            return Sym(self, tensor, numpy_type(tensor.dtype), tuple(tensor.shape))
        raise UnsupportedModelError("no-shape", f"the shape of {name!r} is not known; it was missing in the dry run")

    def free_name(self, name: str) -> str:
        """The name itself, or a new one if the graph has it."""
        return self._nodes.free(name)

    def wrote(self, node: Any) -> bool:
        """Whether this object wrote the node; else it is a node of the file."""
        return node.outputs[0].name in self._outputs

    def has(self, tensor: Any) -> bool:
        """Whether `as_sym` knows a tensor; one that a caller made outside of this object it does not."""
        return isinstance(tensor, gs.Constant) or tensor.name in self._tensors

    def as_sym(self, tensor: Any) -> Sym:
        """The Sym of a graphsurgeon tensor, written here or of the file."""
        if isinstance(tensor, gs.Constant):
            return Sym(self, tensor, numpy_type(tensor.dtype), tuple(tensor.shape))
        return self._outputs.get(tensor.name) or self.sym(tensor.name)

    def more_outputs(self, node: Any, dims: Sequence[Dims], dtype: Any) -> tuple[Sym, ...]:
        """The optional outputs of a node of the file after the first; missing ones are added to the node."""
        for size in dims[len(node.outputs) - 1 :]:
            node.outputs.append(self._output(f"{node.op}_more", size, dtype).tensor)
        return tuple(
            Sym(self, tensor, np.dtype(dtype), size) for tensor, size in zip(node.outputs[1:], dims, strict=True)
        )

    def value(self, name: str) -> Array | None:
        """The value of a small constant (an axis list, a scale), or None; weights are not read."""
        return constants.value(self._tensors[name], self.facts, self.opset)

    def const(self, value: Any, dtype: Any) -> Sym:
        """A constant of element type `dtype`; equal constants are one tensor."""
        array = np.asarray(value, dtype=dtype)
        key = ("const", array.dtype.str, array.shape, array.tobytes())
        if key not in self._written:
            self._written[key] = (Sym(self, self._nodes.constant(array, array.dtype), array.dtype, array.shape),)
        return self._written[key][0]

    def ints(self, values: Sequence[int]) -> Sym:
        return self.const(np.asarray(values, dtype=np.int64).reshape(-1), np.int64)

    def shape(self, x: Sym) -> Sym:
        """The shape of `x` at run time, (rank,) int64."""
        return self.op("Shape", x, dims=(x.rank,), dtype=np.int64)

    def zeros_like(self, x: Sym) -> Sym:
        return self.const(0, x.dtype).expand_like(x)

    def zeros(self, like: Sym, axis: int, width: int) -> Sym:
        """Zeros of the dimensions of `like`, but `width` along one axis."""
        dims = (*like.dims[:axis], width, *like.dims[axis + 1 :])
        if None not in dims:
            shape = self.ints([size for size in dims if size is not None])
        else:
            ends = [(0, axis), (axis + 1, like.rank)]
            head, tail = (
                self.op("Shape", like, dims=(b - a,), dtype=np.int64, start=a, end=b) if b > a else None
                for a, b in ends
            )
            parts = [part for part in (head, self.ints([width]), tail) if part is not None]
            shape = self.op("Concat", *parts, dims=(like.rank,), axis=0)
        return self.op("Expand", self.const(0, like.dtype), shape, dims=dims)

    def count(self, x: Sym, axes: Sequence[int], dtype: Any) -> Sym:
        """The number of elements along `axes`, computed at run time because it follows the batch size."""
        sizes = self.op("Gather", self.shape(x), self.ints(axes), dims=(len(axes),))
        return self.reduce("ReduceProd", sizes.cast(dtype), [0])

    def reduce(self, op: str, x: Sym, axes: Sequence[int], keepdims: bool = True) -> Sym:
        """A reduction over `axes`, which are an input or an attribute, depending on the opset."""
        places = shapes.axes(x.rank, axes)
        if not places:
            return x
        dims = shapes.reduced(x.dims, places, keepdims)
        inputs, attrs = reduction_axes(op, places, self.opset)
        return self.op(op, x, *map(self.ints, inputs), dims=dims, **attrs, keepdims=int(keepdims))

    def op(self, op: str, *inputs: Sym, dims: Dims, dtype: Any = None, **attrs: Any) -> Sym:
        """Append one node with one output; `dtype` defaults to that of the first input."""
        kind = inputs[0].dtype if dtype is None else dtype
        return self.ops(op, *inputs, dims=[dims], dtypes=[kind], **attrs)[0]

    def ops(self, op: str, *inputs: Sym, dims: Sequence[Dims], dtypes: Sequence[Any], **attrs: Any) -> tuple[Sym, ...]:
        """Append one node with as many outputs as `dims` has entries."""
        key = (op, tuple(x.name for x in inputs), repr(sorted(attrs.items())), len(dims))
        if key not in self._written:
            outputs = tuple(self._output(op, size, dtype) for size, dtype in zip(dims, dtypes, strict=True))
            self._nodes.append(op, [x.tensor for x in inputs], [y.tensor for y in outputs], attrs)
            self._written[key] = outputs
        return self._written[key]

    def _output(self, op: str, dims: Dims, dtype: Any) -> Sym:
        tensor = self._nodes.variable(f"{op}_out", np.dtype(dtype), dims)
        self._tensors[tensor.name] = tensor
        self._outputs[tensor.name] = Sym(self, tensor, np.dtype(dtype), dims)
        return self._outputs[tensor.name]

    def drop_unused(self, since: int, keep: Sequence[Sym]) -> None:
        """Remove the nodes from position `since` on that no tensor of `keep` depends on."""
        needed = {sym.name for sym in keep}
        kept: list[Any] = []
        for node in reversed(self.graph.nodes[since:]):
            if any(output.name in needed for output in node.outputs):
                needed.update(tensor.name for tensor in node.inputs)
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
