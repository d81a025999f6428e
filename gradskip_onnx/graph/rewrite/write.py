"""Writes plain nodes with few words, for rewriting one operator into others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.surgeon.element_types import numpy_type, onnx_type
from gradskip_onnx.surgeon.node_writer import NodeWriter
from gradskip_onnx.surgeon.opsets import reduction_axes
from gradskip_onnx.types import TensorFact


class Write:
    """Appends plain nodes to a graph; element types and ranks come from the dry run."""

    def __init__(self, nodes: NodeWriter, facts: Mapping[str, TensorFact]) -> None:
        self.nodes, self.facts = nodes, facts
        self.kinds: dict[str, Any] = {}  # tensor name -> element type, for tensors written here

    def op(self, kind: str, *inputs: Any, gives: Any = None, **attrs: Any) -> gs.Variable:
        """One node with one output, of the element type `gives` or that of the first input."""
        return self.ops(kind, 1, *inputs, gives=gives, **attrs)[0]

    def ops(
        self, kind: str, outputs: int, *inputs: Any, gives: Any = None, domain: str | None = None, **attrs: Any
    ) -> list[gs.Variable]:
        """One node with `outputs` outputs; numbers among the inputs become constants of the first tensor's type."""
        like = next((x for x in inputs if isinstance(x, gs.Tensor)), None)
        tensors = [x if isinstance(x, gs.Tensor) else self.const(x, self.dtype(like)) for x in inputs]
        results = [self.nodes.variable(kind) for _ in range(outputs)]
        self.kinds |= {tensor.name: np.dtype(gives or self.dtype(like)) for tensor in results}
        self.nodes.append(kind, tensors, results, attrs, domain)
        return results

    def into(self, output: gs.Variable, kind: str, *inputs: gs.Tensor, **attrs: Any) -> None:
        """One node whose output is an existing tensor."""
        self.nodes.append(kind, inputs, [output], attrs)

    def const(self, value: Any, dtype: Any) -> gs.Constant:
        return self.nodes.constant(value, dtype)

    def ints(self, *values: int) -> gs.Constant:
        return self.const(values, np.int64)

    def dtype(self, tensor: gs.Tensor | None) -> Any:
        """The element type of a tensor: from the dry run, or its own."""
        if tensor is None:
            return np.dtype(np.float32)
        fact = self.facts.get(tensor.name)
        if fact is not None:
            return fact.dtype
        return self.kinds.get(tensor.name) or numpy_type(tensor.dtype or np.float32)

    def rank(self, tensor: gs.Tensor) -> int:
        if isinstance(tensor, gs.Constant):
            return len(tensor.shape)
        return len(self.facts[tensor.name].dims)

    def follows(self, tensor: gs.Tensor, other: gs.Tensor) -> bool:
        """Whether a tensor is computed from another."""
        waiting, seen = [tensor], set()
        while waiting:
            current = waiting.pop()
            if current is other:
                return True
            if id(current) not in seen:
                seen.add(id(current))
                waiting += [source for node in current.inputs for source in node.inputs]
        return False

    def cast(self, tensor: gs.Tensor, kind: Any) -> gs.Variable:
        return self.op("Cast", tensor, to=onnx_type(kind), gives=kind)

    def reduce(self, kind: str, tensor: gs.Tensor, axes: Sequence[int], keepdims: int = 1) -> gs.Variable:
        """A reduction over `axes`, in the form of this opset; over all axes if `axes` is empty."""
        axes_inputs, attrs = reduction_axes(kind, axes, self.nodes.opset) if axes else ([], {})
        return self.op(kind, tensor, *(self.ints(*each) for each in axes_inputs), **attrs, keepdims=keepdims)

    def mean_last(self, tensor: gs.Tensor) -> gs.Variable:
        """The mean over the last axis, which stays."""
        return self.reduce("ReduceMean", tensor, [-1])

    def swap_last(self, tensor: gs.Tensor, rank: int) -> gs.Variable:
        """The last two axes exchanged."""
        return self.op("Transpose", tensor, perm=[*range(rank - 2), rank - 1, rank - 2])

    def split_heads(self, tensor: gs.Tensor, heads: int) -> gs.Variable:
        """(B, S, heads * d) -> (B, heads, S, d)."""
        return self.op("Transpose", self.op("Reshape", tensor, self.ints(0, 0, heads, -1)), perm=[0, 2, 1, 3])

    def join_heads(self, tensor: gs.Tensor) -> gs.Variable:
        """(B, heads, S, d) -> (B, S, heads * d)."""
        return self.op("Reshape", self.op("Transpose", tensor, perm=[0, 2, 1, 3]), self.ints(0, 0, -1))

    def add_if(self, tensor: gs.Tensor, extra: gs.Tensor | None) -> gs.Tensor:
        return tensor if extra is None else self.op("Add", tensor, extra)


def optional_input(node: gs.Node, position: int) -> gs.Tensor | None:
    """The input at `position`, or None if it is left out."""
    inputs: Sequence[Any] = node.inputs
    return inputs[position] if position < len(inputs) and inputs[position].name else None
