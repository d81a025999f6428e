"""A cheap model with the same tensor shapes: every product sums over a single element, functions are left out.

The shape of a product does not depend on the length of the summed axis, and an elementwise function gives the shape of
what it reads. Values are meaningless; callers compare the shapes with those of a run of the model itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import onnx

from gradskip_onnx.operators import Kind, of_kind
from gradskip_onnx.types import TensorFact

from .followed_shapes import shape_givers
from .partial_model import PartialModel

FUNCTIONS = of_kind(Kind.UNARY | Kind.BROADCASTS | Kind.PROBABILITIES)
THIN = "gradskip/thin/"
STANDARD = ("", "ai.onnx")
NUMBERS = {f"{THIN}{number}": np.array([number], np.int64) for number in range(8)}  # starts, ends and axes of slices

# Operator -> the summed axis of each of its two operands, from their ranks and the attributes; None: leave it.
Axes = Callable[[int, int, Mapping[str, Any]], tuple[int, int] | None]
SUMMED: dict[str, Axes] = {
    "MatMul": lambda a, b, _: (a - 1, max(b - 2, 0)),
    "Gemm": lambda _a, _b, attrs: (0 if attrs.get("transA") else 1, 1 if attrs.get("transB") else 0),
    "Conv": lambda _a, _b, attrs: (1, 1) if attrs.get("group", 1) == 1 else None,
}  # fmt: skip


def shape_twin(whole: PartialModel, facts: Mapping[str, TensorFact], activations: Collection[str]) -> PartialModel:
    """The twin of `whole`: products of activations sum over one element, and functions of one activation are left out.

    Who reads the result of such a function reads its input instead; the result itself stays for whom it is an output.
    """
    nodes: list[onnx.NodeProto] = []
    stored = dict(whole.stored) | {name: onnx.numpy_helper.from_array(v, name) for name, v in NUMBERS.items()}
    ranks = {name: len(tensor.dims) for name, tensor in whole.stored.items()}
    ranks |= {name: len(fact.dims) for name, fact in facts.items()}
    sources: dict[str, str] = {}  # result of a function -> what its readers read instead
    for node in whole.nodes:
        if not sources.keys().isdisjoint(node.input):
            node = _reading(node, sources)
        if node.output[0] in activations and (source := _passed_on(node, facts, whole.stored)):
            sources[node.output[0]] = source
        axes = _axes(node, ranks) if node.output[0] in activations else None
        if axes is not None:
            original, node = node, onnx.NodeProto()
            node.CopyFrom(original)
            for place, axis in enumerate(axes):
                name, short = original.input[place], f"{THIN}{original.output[0]}/{place}"
                node.input[place] = short
                if name in whole.weights:
                    stored[short] = _narrow(whole.stored[name], short, axis)
                else:
                    bounds = [f"{THIN}0", f"{THIN}1", f"{THIN}{axis}"]
                    nodes.append(onnx.helper.make_node("Slice", [name, *bounds], [short]))
        nodes.append(node)
    return replace(whole, nodes=nodes, stored=stored)


def _reading(node: onnx.NodeProto, sources: Mapping[str, str]) -> onnx.NodeProto:
    other = onnx.NodeProto()
    other.CopyFrom(node)
    other.input[:] = [sources.get(name, name) for name in node.input]
    return other


def _passed_on(
    node: onnx.NodeProto, facts: Mapping[str, TensorFact], stored: Mapping[str, onnx.TensorProto]
) -> str | None:
    """The input whose shape and type a function has at any batch size: all others are stored single numbers."""
    if node.op_type not in FUNCTIONS:
        return None
    read = [name for name in shape_givers(node) if name not in stored]
    numbers = all(prod(stored[name].dims) == 1 for name in shape_givers(node) if name in stored)
    same = len(read) == 1 and numbers and facts.get(read[0]) is not None and facts[read[0]] == facts[node.output[0]]
    return read[0] if same else None


def _axes(node: onnx.NodeProto, ranks: Mapping[str, int]) -> tuple[int, int] | None:
    if node.op_type not in SUMMED or node.domain not in STANDARD or not ranks.keys() >= set(node.input[:2]):
        return None
    attrs = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
    return SUMMED[node.op_type](ranks[node.input[0]], ranks[node.input[1]], attrs)


def _narrow(weight: onnx.TensorProto, name: str, axis: int) -> onnx.TensorProto:
    """Zeros in the shape of `weight`, with size 1 along `axis`."""
    dims = [1 if place == axis else size for place, size in enumerate(weight.dims)]
    kind = onnx.helper.tensor_dtype_to_np_dtype(weight.data_type)
    return onnx.numpy_helper.from_array(np.zeros(dims, kind), name)
