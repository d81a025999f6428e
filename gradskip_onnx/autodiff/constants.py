"""Evaluates small tensors at build time: axis lists and slice bounds, also if the file computes them from shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx.reference import ReferenceEvaluator

from gradskip_onnx.types import Array, TensorFact

SMALL = 4096  # elements; a larger constant is a weight and is not read
TRIALS = (7919, 7907)  # batch sizes; a value that is the same for both does not depend on the batch size
ARITHMETIC = frozenset(
    {
        *("Add", "Sub", "Mul", "Div", "Neg", "Abs", "Min", "Max", "Floor", "Ceil", "Cast", "Where"),
        *("Concat", "Gather", "Slice", "Squeeze", "Unsqueeze", "Reshape", "Range", "ConstantOfShape", "ReduceProd"),
        *("Equal", "Less", "Greater", "Not", "And", "Or", "Size", "Expand", "Transpose", "Mod", "ScatterND"),
    }
)


def value(tensor: Any, facts: Mapping[str, TensorFact], opset: int) -> Array | None:
    """The value of a small tensor that depends only on constants and fixed sizes; else None."""
    first, second = (_evaluate(tensor, facts, opset, batch) for batch in TRIALS)
    return first if first is not None and second is not None and np.array_equal(first, second) else None


def _evaluate(tensor: Any, facts: Mapping[str, TensorFact], opset: int, batch: int) -> Array | None:
    if isinstance(tensor, gs.Constant):
        return np.asarray(tensor.values) if int(np.prod(tensor.shape)) <= SMALL else None
    if not tensor.inputs:
        return None
    node = tensor.inputs[0]
    if node.op == "Constant":
        content = next(iter(node.attrs.values()))
        constant = content if isinstance(content, gs.Constant) else gs.Constant("", np.asarray(content))
        return _evaluate(constant, facts, opset, 0)
    if node.op == "Shape" and node.inputs[0].name in facts:
        sizes = [batch if size is None else size for size in facts[node.inputs[0].name].dims]
        return np.asarray(sizes[node.attrs.get("start", 0) : node.attrs.get("end", len(sizes))], dtype=np.int64)
    if node.op == "DequantizeLinear":
        return _dequantised([_evaluate(source, facts, opset, batch) for source in node.inputs if source.name])
    if node.op not in ARITHMETIC or _size(tensor, facts) > SMALL:
        return None
    values = {source.name: _evaluate(source, facts, opset, batch) for source in node.inputs if source.name}
    if any(array is None for array in values.values()):
        return None
    return _run(node, tensor.name, values, opset)


def _dequantised(values: Sequence[Array | None]) -> Array | None:
    """s (q - z) for a scale s of the whole tensor; the reference has this operator only from opset 19 on."""
    q, scale, *zero = values
    if q is None or scale is None or scale.size != 1 or q.dtype.kind not in "iu" or any(z is None for z in zero):
        return None
    shifted = q.astype(np.int64) - sum(int(z.item()) for z in zero if z is not None)
    return np.asarray(shifted.astype(scale.dtype) * scale.reshape(()))


def _size(tensor: Any, facts: Mapping[str, TensorFact]) -> int:
    """Number of elements in the dry run; a tensor without a fact counts as too large to evaluate."""
    if tensor.name not in facts:
        return SMALL + 1
    return int(np.prod([1 if size is None else size for size in facts[tensor.name].dims]))


def _run(node: Any, output: str, values: Mapping[str, Array | None], opset: int) -> Array:
    """One output of a node, evaluated by the reference implementation of ONNX."""
    proto = onnx.helper.make_node(
        node.op, [x.name for x in node.inputs], [y.name for y in node.outputs], **_plain(node.attrs)
    )
    graph = onnx.helper.make_graph(
        [proto],
        "constant",
        [onnx.ValueInfoProto(name=name) for name in values],
        [onnx.ValueInfoProto(name=output)],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    results: Any = ReferenceEvaluator(model).run([output], dict(values))
    return np.asarray(results[0])


def _plain(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes for onnx: tensors are TensorProto there and gs.Constant in graphsurgeon."""
    return {
        key: onnx.numpy_helper.from_array(np.asarray(v.values)) if isinstance(v, gs.Constant) else v
        for key, v in attrs.items()
    }
