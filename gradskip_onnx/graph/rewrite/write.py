"""A small writer of plain nodes, for rewriting one operator into others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from gradskip_onnx.types import TensorFact

AXES_INPUT_OPSET = 18  # from here on ReduceMean takes its axes as an input


class Write:
    """Appends nodes to a graph under names that start with the node being rewritten."""

    def __init__(self, graph: gs.Graph, stem: str, facts: Mapping[str, TensorFact], opset: int) -> None:
        self.graph, self.stem, self.facts, self.opset = graph, stem, facts, opset
        self.kinds: dict[str, Any] = {}  # element types of what was written
        self.count = 0

    def op(self, kind: str, *inputs: Any, gives: Any = None, **attrs: Any) -> gs.Variable:
        """One node with one output, of the element type `gives` or that of the first input."""
        return self.ops(kind, 1, *inputs, gives=gives, **attrs)[0]

    def ops(
        self, kind: str, outputs: int, *inputs: Any, gives: Any = None, domain: str | None = None, **attrs: Any
    ) -> list[gs.Variable]:
        """One node; numbers among the inputs become constants of the type of the first tensor among them."""
        like = next((x for x in inputs if isinstance(x, gs.Tensor)), None)
        tensors = [x if isinstance(x, gs.Tensor) else self.const(x, self.dtype(like)) for x in inputs]
        made = [gs.Variable(self._name(kind)) for _ in range(outputs)]
        self.kinds |= {tensor.name: np.dtype(gives or self.dtype(like)) for tensor in made}
        self.graph.nodes.append(gs.Node(kind, self._name(kind), attrs, inputs=tensors, outputs=made, domain=domain))
        return made

    def const(self, value: Any, dtype: Any) -> gs.Constant:
        return gs.Constant(self._name("constant"), np.asarray(value, dtype))

    def ints(self, *values: int) -> gs.Constant:
        return self.const(values, np.int64)

    def dtype(self, tensor: gs.Tensor | None) -> Any:
        """The element type of a tensor: from the dry run, or its own."""
        if tensor is None:
            return np.dtype(np.float32)
        fact = self.facts.get(tensor.name)
        return fact.dtype if fact is not None else self.kinds.get(tensor.name) or tensor.dtype or np.dtype(np.float32)

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
        return self.op("Cast", tensor, to=int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))), gives=kind)

    def mean_last(self, tensor: gs.Tensor) -> gs.Variable:
        """The mean over the last axis, which stays."""
        if self.opset >= AXES_INPUT_OPSET:
            return self.op("ReduceMean", tensor, self.ints(-1), keepdims=1)
        return self.op("ReduceMean", tensor, axes=[-1], keepdims=1)

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

    def _name(self, kind: str) -> str:
        self.count += 1
        return f"{self.stem}/{kind}_{self.count}"


def given(node: gs.Node, position: int) -> gs.Tensor | None:
    """An optional input, None if it was left out."""
    inputs: Sequence[Any] = node.inputs
    return inputs[position] if position < len(inputs) and inputs[position].name else None
