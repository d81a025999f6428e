"""Computes chosen rows of tensors alone: a row of an attention takes one row of the queries, and never all of it.

A row is a place along one axis. The choice is moved up through every operator that works row by row, to where tensors
are small; where it meets another operator, the tensor is computed whole and its rows are picked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import onnx

from gradskip_onnx.operators import Kind, of_kind
from gradskip_onnx.types import Array

from .followed_shapes import STANDARD, Shape
from .partial_model import PartialModel, read_by

MOST_ENTRIES = 1 << 22  # of a tensor that is computed whole: the choice is moved up to tensors made from such ones
MOST_HOPS = 200
ROWS = "gradskip/rows/"
LAST_AXIS_OPSET = 13  # before, a Softmax flattens the axes from its own on
ELEMENTWISE = of_kind(Kind.UNARY | Kind.BROADCASTS) | {"Cast", "Identity", "Clip"}
ON_A_GRID = of_kind(Kind.QUANTISES | Kind.DEQUANTISES) - {"DynamicQuantizeLinear"}
RELABELLED = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten"})


def with_rows(
    model: PartialModel, rows: Mapping[str, Array | None], shapes: Mapping[str, Shape], cuts: Collection[str]
) -> tuple[PartialModel, dict[str, str]]:
    """`model` with chosen rows (second last axis) of some tensors to read, and for each of these its name there.

    None stands for all rows. `shapes` are those of all tensors, and tensors in `cuts` are given.
    """
    names = {tensor: tensor for tensor in rows}
    nodes, stored = list(model.nodes), dict(model.stored)
    sizes = {**shapes, **{name: tuple(value.dims) for name, value in model.stored.items()}}
    lineage = _Lineage.of(model, sizes, cuts)
    chosen: dict[bytes, _Chooser] = {}
    for tensor, numbers in rows.items():
        if numbers is not None:
            chooser = chosen.setdefault(numbers.tobytes(), _Chooser(f"{ROWS}{len(chosen)}/", numbers, sizes, lineage))
            names[tensor] = chooser.take(tensor, len(sizes[tensor]) - 2)
    for chooser in chosen.values():
        nodes += chooser.nodes
        stored |= {name: onnx.numpy_helper.from_array(value, name) for name, value in chooser.constants.items()}
    return replace(model, nodes=nodes, stored=stored), names


@dataclass(frozen=True, slots=True, eq=False)
class _Lineage:
    """Where tensors come from: their nodes, and those that a large tensor was made for."""

    makers: Mapping[str, onnx.NodeProto]
    costly: Collection[str]
    opset: int

    @classmethod
    def of(cls, model: PartialModel, sizes: Mapping[str, Shape], cuts: Collection[str]) -> _Lineage:
        makers: dict[str, onnx.NodeProto] = {}
        costly: set[str] = set()
        for node in model.nodes:
            for name in node.output:
                if name not in cuts:
                    makers[name] = node
                    if prod(sizes.get(name, ())) > MOST_ENTRIES or not costly.isdisjoint(read_by(node)):
                        costly.add(name)
        opset = next((entry.version for entry in model.frame.opset_import if entry.domain in STANDARD), 0)
        return cls(makers, costly, opset)


@dataclass(frozen=True, slots=True, eq=False)
class _Chooser:
    """Writes nodes that compute the rows `numbers` of tensors."""

    prefix: str
    numbers: Array
    sizes: Mapping[str, Shape]
    lineage: _Lineage
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    taken: dict[tuple[str, int], str] = field(default_factory=dict)

    def take(self, tensor: str, axis: int, hops: int = 0) -> str:
        """The name of the tensor that holds the chosen rows of `tensor` along `axis`."""
        if (tensor, axis) not in self.taken:
            node = self.lineage.makers.get(tensor)
            moved = None
            if node is not None and tensor in self.lineage.costly and hops < MOST_HOPS and len(node.output) == 1:
                rule = RULES.get(node.op_type) if node.domain in STANDARD else None
                moved = None if rule is None else rule(_Step(self, node, axis, hops))
            self.taken[tensor, axis] = moved or self._pick(tensor, axis)
        return self.taken[tensor, axis]

    def write(self, node: onnx.NodeProto, inputs: Sequence[str], axis: int) -> str:
        """Append a copy of a node that reads other tensors; returns the name of its output."""
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = inputs
        return self._append(copy, node.output[0], axis)

    def reshape(self, source: str, tensor: str, axis: int) -> str:
        """Append a Reshape to the shape of `tensor` with only the chosen rows."""
        size = list(self.sizes[tensor])
        size[axis] = len(self.numbers)
        shape = self.constant(f"shape/{'x'.join(map(str, size))}", np.array(size, np.int64))
        return self._append(onnx.helper.make_node("Reshape", [source, shape], [""]), tensor, axis)

    def constant(self, name: str, value: Array) -> str:
        self.constants[f"{self.prefix}{name}"] = value
        return f"{self.prefix}{name}"

    def _pick(self, tensor: str, axis: int) -> str:
        numbers = self.constant("numbers", self.numbers)
        return self._append(onnx.helper.make_node("Gather", [tensor, numbers], [""], axis=axis), tensor, axis)

    def _append(self, node: onnx.NodeProto, tensor: str, axis: int) -> str:
        name = f"{self.prefix}{axis}/{tensor}"
        node.name = name
        node.output[:] = [name]
        self.nodes.append(node)
        return name


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """One node above which the rows of its output along `axis` may be chosen."""

    chooser: _Chooser
    node: onnx.NodeProto
    axis: int
    hops: int

    @property
    def shape(self) -> Shape:
        return self.chooser.sizes[self.node.output[0]]

    def size(self, place: int) -> Shape:
        """The shape of an input."""
        return self.chooser.sizes[self.node.input[place]]

    def attribute(self, name: str, default: Any = None) -> Any:
        found = next((entry for entry in self.node.attribute if entry.name == name), None)
        return default if found is None else onnx.helper.get_attribute_value(found)

    def above(self, axes: Mapping[int, int]) -> str:
        """The node on chosen rows of some inputs: `axes` maps the place of an input to its axis."""
        inputs = list(self.node.input)
        for place, axis in axes.items():
            inputs[place] = self.chooser.take(inputs[place], axis, self.hops + 1)
        return self.chooser.write(self.node, inputs, self.axis)


def _elementwise(step: _Step) -> str | None:
    """Inputs that have the axis give their rows; others are broadcast along it."""
    axes = {}
    for place, name in enumerate(step.node.input):
        if name:
            if name not in step.chooser.sizes:
                return None
            axis = step.axis - (len(step.shape) - len(step.size(place)))
            if axis >= 0 and step.size(place)[axis] != 1:
                axes[place] = axis
    return step.above(axes)


def _on_a_grid(step: _Step) -> str | None:
    """Rounding to one grid, or back."""
    one_grid = all(prod(step.size(place)) == 1 for place in range(1, len(step.node.input)) if step.node.input[place])
    return step.above({0: step.axis}) if one_grid else None


def _softmax(step: _Step) -> str | None:
    last = len(step.shape) - 1
    flattens = step.chooser.lineage.opset < LAST_AXIS_OPSET
    axis = step.attribute("axis", 1 if flattens else -1) % (last + 1)
    return step.above({0: step.axis}) if axis == last and step.axis != last else None


def _layer_normalization(step: _Step) -> str | None:
    first = step.attribute("axis", -1) % len(step.shape)
    return step.above({0: step.axis}) if step.axis < first else None


def _matmul(step: _Step) -> str | None:
    """A row of A B is that row of A, times B."""
    rank = len(step.size(0))
    return step.above({0: rank - 2}) if rank >= 2 and step.axis == len(step.shape) - 2 else None


def _gemm(step: _Step) -> str | None:
    added = step.size(2) if len(step.node.input) > 2 and step.node.input[2] else ()
    if step.axis or step.attribute("transA", 0) or (len(added) == 2 and added[0] != 1):
        return None
    return step.above({0: 0})


def _transpose(step: _Step) -> str | None:
    order = step.attribute("perm", list(range(len(step.shape)))[::-1])
    return step.above({0: order[step.axis]})


def _relabelled(step: _Step) -> str | None:
    """The axis in the other shape: as long, and with as many values before it."""
    source, shape = step.size(0), step.shape
    before = prod(shape[: step.axis])
    axis = next((a for a, n in enumerate(source) if n == shape[step.axis] and prod(source[:a]) == before), None)
    if axis is None:
        return None
    return step.chooser.reshape(
        step.chooser.take(step.node.input[0], axis, step.hops + 1), step.node.output[0], step.axis
    )


RULES: Mapping[str, Callable[[_Step], str | None]] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(ON_A_GRID, _on_a_grid),
    **dict.fromkeys(RELABELLED, _relabelled),
    "Softmax": _softmax,
    "LayerNormalization": _layer_normalization,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Transpose": _transpose,
}
