"""What the rules write with: nodes whose shapes are known, equal ones shared, and those that lead nowhere removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.surgeon.element_types import numpy_type
from gradskip_onnx.surgeon.node_writer import NodeWriter
from gradskip_onnx.surgeon.opsets import OLDEST_OPSET, reduction_axes
from gradskip_onnx.types import Array, Dims, TensorFact

from . import constants
from . import dims as shapes
from .sym import Sym

__all__ = ["Emit", "Sym"]


class Emit:
    """Appends nodes to a graphsurgeon graph that the caller owns; equal nodes are written once."""

    def __init__(self, graph: Any, facts: Mapping[str, TensorFact], opset: int) -> None:
        if opset < OLDEST_OPSET:
            raise UnsupportedModelError(
                "opset-too-old",
                f"the model uses opset {opset}; gradients need {OLDEST_OPSET} or newer: export it again",
            )
        self.graph, self.facts, self.opset = graph, facts, opset
        known = [*graph.tensors().values(), *graph.inputs]  # an input nobody reads yet is in no node
        self._tensors: dict[str, Any] = {tensor.name: tensor for tensor in known if tensor.name}
        self._nodes = NodeWriter(graph, opset)
        self._written: dict[Any, tuple[Sym, ...]] = {}
        self._made: dict[str, Sym] = {}  # what was written here, by name

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
        """Whether a node was written here and not found in the file."""
        return node.outputs[0].name in self._made

    def again(self, tensor: Any) -> Sym:
        """The tensor of a node that was written here."""
        return self._made.get(tensor.name) or self.sym(tensor.name)

    def more_outputs(self, node: Any, dims: Sequence[Dims], dtype: Any) -> tuple[Sym, ...]:
        """The optional outputs of a node of the file after its first one, asked for if they were not."""
        for size in dims[len(node.outputs) - 1 :]:
            node.outputs.append(self._output(f"{node.op}_more", size, dtype).tensor)
        return tuple(
            Sym(self, tensor, np.dtype(dtype), size) for tensor, size in zip(node.outputs[1:], dims, strict=True)
        )

    def value(self, name: str) -> Array | None:
        """The value of a small constant (an axis list, a scale), or None; weights are never read."""
        return constants.value(self._tensors[name], self.facts, self.opset)

    def const(self, value: Any, dtype: Any) -> Sym:
        """A constant of the given element type, shared with every equal one."""
        array = np.asarray(value, dtype=dtype)
        key = ("const", array.dtype.str, array.shape, array.tobytes())
        if key not in self._written:
            self._written[key] = (Sym(self, self._nodes.constant(array, array.dtype), array.dtype, array.shape),)
        return self._written[key][0]

    def ints(self, values: Sequence[int]) -> Sym:
        return self.const(np.asarray(values, dtype=np.int64).reshape(-1), np.int64)

    def shape(self, x: Sym) -> Sym:
        """The dimensions of `x` as seen at run time."""
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
        """How many elements lie along `axes`, where that follows the batch size."""
        sizes = self.op("Gather", self.shape(x), self.ints(axes), dims=(len(axes),))
        return self.reduce("ReduceProd", sizes.cast(dtype), [0])

    def reduce(self, op: str, x: Sym, axes: Sequence[int], keepdims: bool = True) -> Sym:
        """A reduction over `axes`, in the form this opset asks for."""
        places = shapes.axes(x.rank, axes)
        if not places:
            return x
        dims = shapes.reduced(x.dims, places, keepdims)
        given, attrs = reduction_axes(op, places, self.opset)
        return self.op(op, x, *map(self.ints, given), dims=dims, **attrs, keepdims=int(keepdims))

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
        self._made[tensor.name] = Sym(self, tensor, np.dtype(dtype), dims)
        return self._made[tensor.name]

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
