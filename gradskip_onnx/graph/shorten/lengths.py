"""The table: how each operator carries the token axis, and what in it must be rewritten to let that axis shrink.

Sizes are followed by position, never recognised by their number: 197 channels are not 197 tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.index import SHAPE_READERS
from gradskip_onnx.graph.rewrite.write import Write
from gradskip_onnx.operators import Kind, of_kind
from gradskip_onnx.types import Array, Dims, TensorFact

from .sizes import BATCH, Free, Scale, Shape, Size, number, plain, regroup, spell
from .uniform import uniform

# Their first input gives the shape; the others are weights along some axis of it, or single numbers.
LIKE_FIRST = of_kind(Kind.NORMALISES | Kind.DEQUANTISES) | {"Clip", "Dropout", "QuantizeLinear"}


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """State of one pass through a graph with a free token axis: the sizes so far, and a writer of new shape tensors."""

    sizes: dict[str, Shape]
    facts: Mapping[str, TensorFact]
    scale: Scale
    leading: int  # special tokens in front of the patches, found by counting from the start
    trailing: int  # special tokens behind the patches, found by counting from the end
    write: Write
    batch: Any  # (1,) int64 tensor: the batch size
    tokens: Any  # (1,) int64 tensor: the number of tokens

    def shape(self, tensor: Any, node: Any) -> Shape:
        """The shape of an input: one with free sizes if it depends on the tokens, else a fixed one."""
        if tensor.name in self.sizes:
            return self.sizes[tensor.name]
        dims = _dims(self, tensor)
        if None in dims:
            raise refuse(node, f"reads {tensor.name!r}, which follows the batch but not the tokens")
        return tuple(plain(size or 0) for size in dims)

    def vector(self, shape: Shape, before: Shape) -> Any:
        """The second input of a Reshape from `before` to `shape`; 0 copies an axis, -1 is left to the Reshape."""
        entries = [
            0 if at < len(before) and size == before[at] and size else number(size) for at, size in enumerate(shape)
        ]
        if entries.count(None) <= 1:
            return self.write.ints(*(-1 if entry is None else entry for entry in entries))
        return self.joined(
            [self.measure(size) if entry is None else entry for entry, size in zip(entries, shape, strict=True)]
        )

    def joined(self, entries: Sequence[Any]) -> Any:
        parts = [self.write.ints(entry) if isinstance(entry, int) else entry for entry in entries]
        return self.write.op("Concat", *parts, axis=0)

    def measure(self, size: Size) -> Any:
        """A size as a (1,) int64 tensor, computed in the graph."""
        found = None
        for factor in size:
            part = self.write.ints(factor) if isinstance(factor, int) else self._measure(factor)
            found = part if found is None else self.write.op("Mul", found, part)
        return self.write.ints(1) if found is None else found

    def _measure(self, factor: Free) -> Any:
        if factor.kind == "batch":
            return self.batch
        less = factor.front + factor.back
        return self.write.op("Sub", self.tokens, self.write.ints(less)) if less else self.tokens


def _dims(walk: Walk, tensor: Any) -> Dims:
    return tuple(tensor.shape) if isinstance(tensor, gs.Constant) else walk.facts[tensor.name].dims


Rule = Callable[[Walk, Any], list[Shape]]
RULES: dict[str, Rule] = {}


def follow(walk: Walk, nodes: Sequence[Any]) -> None:
    """Carry the sizes through nodes in topological order; each result must agree with the measured shape."""
    for node in nodes:
        if node.op in SHAPE_READERS or not any(tensor.name in walk.sizes for tensor in node.inputs):
            continue
        shapes = RULES.get(node.op, broadcast)(walk, node)
        for tensor, shape in zip(node.outputs, shapes, strict=False):
            measured = walk.facts[tensor.name].dims
            right = len(measured) == len(shape) and all(
                dim is None or dim == walk.scale.value(size) for dim, size in zip(measured, shape, strict=True)
            )
            if not right:
                raise refuse(node, f"gives {measured} where {spell(shape)} was expected: there is no rule for it")
            walk.sizes[tensor.name] = shape


def refuse(node: Any, reason: str) -> UnsupportedModelError:
    """The error for a node that fixes the number or the places of tokens."""
    return UnsupportedModelError(
        "fixed-sequence", f"tokens cannot be left out of this model: node {node.name!r} ({node.op}) {reason}"
    )


def rule(*kinds: str) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, function))
        return function

    return add


def broadcast(walk: Walk, node: Any) -> list[Shape]:
    """Elementwise operators; an input that holds one number everywhere becomes that number, which fits any length."""
    for at, tensor in enumerate(node.inputs):
        if tensor.name and tensor.name not in walk.sizes and len(_dims(walk, tensor)) > 1:
            value = uniform(tensor)
            if value is not None:
                node.inputs[at] = walk.write.const(value, value.dtype)
    return [_broadcast_shape(node, [walk.shape(tensor, node) for tensor in node.inputs if tensor.name])]


def _broadcast_shape(node: Any, shapes: Sequence[Shape]) -> Shape:
    rank = max(len(shape) for shape in shapes)
    axes = zip(*(((),) * (rank - len(shape)) + shape for shape in shapes), strict=True)
    found = []
    for axis in axes:
        different = list(dict.fromkeys(size for size in axis if size))
        if len(different) > 1:
            raise refuse(node, f"joins axes of {' and '.join(spell((size,)) for size in different)}: places are bound")
        found.append(different[0] if different else ())
    return tuple(found)


@rule(*LIKE_FIRST)
def _like_first(walk: Walk, node: Any) -> list[Shape]:
    return [walk.shape(node.inputs[0], node)]


@rule("DynamicQuantizeLinear")
def _dynamic_quantise(walk: Walk, node: Any) -> list[Shape]:
    return [walk.shape(node.inputs[0], node), (), ()]


@rule("MatMul", "MatMulInteger")
def _matmul(walk: Walk, node: Any) -> list[Shape]:
    a, b = (walk.shape(tensor, node) for tensor in node.inputs[:2])
    if min(len(a), len(b)) < 2 or a[-1] != b[-2]:
        raise refuse(node, f"multiplies {spell(a)} with {spell(b)}: places are bound")
    return [(*_broadcast_shape(node, [a[:-2], b[:-2]]), a[-2], b[-1])]


@rule("Gemm")
def _gemm(walk: Walk, node: Any) -> list[Shape]:
    a, b = (walk.shape(tensor, node) for tensor in node.inputs[:2])
    a, b = a[:: -1 if node.attrs.get("transA") else 1], b[:: -1 if node.attrs.get("transB") else 1]
    if a[1] != b[0]:
        raise refuse(node, f"multiplies {spell(a)} with {spell(b)}: places are bound")
    return [(a[0], b[1])]


@rule("Einsum")
def _einsum(walk: Walk, node: Any) -> list[Shape]:
    inputs, _, output = node.attrs["equation"].replace(" ", "").partition("->")
    if "." in inputs or not output:
        raise refuse(node, f"has the equation {node.attrs['equation']!r}, which is not followed")
    sizes: dict[str, Size] = {}
    for letters, tensor in zip(inputs.split(","), node.inputs, strict=True):
        for letter, size in zip(letters, walk.shape(tensor, node), strict=True):
            if sizes.setdefault(letter, size) != size:
                raise refuse(node, f"joins axes of {spell((sizes[letter], size))}: places are bound")
    return [tuple(sizes[letter] for letter in output)]


@rule("Transpose")
def _transpose(walk: Walk, node: Any) -> list[Shape]:
    shape = walk.shape(node.inputs[0], node)
    return [tuple(shape[axis] for axis in node.attrs.get("perm", range(len(shape))[::-1]))]


@rule("Squeeze")
def _squeeze(walk: Walk, node: Any) -> list[Shape]:
    shape = walk.shape(node.inputs[0], node)
    axes = _axes(node, len(shape))
    if axes is None:
        raise refuse(node, "drops whatever axes have size 1, which depends on the batch")
    return [tuple(size for axis, size in enumerate(shape) if axis not in axes)]


@rule("Unsqueeze")
def _unsqueeze(walk: Walk, node: Any) -> list[Shape]:
    shape = list(walk.shape(node.inputs[0], node))
    for axis in sorted(_axes(node, len(walk.facts[node.outputs[0].name].dims)) or ()):
        shape.insert(axis, ())
    return [tuple(shape)]


@rule(*of_kind(Kind.REDUCES))
def _reduce(walk: Walk, node: Any) -> list[Shape]:
    shape = walk.shape(node.inputs[0], node)
    axes = _axes(node, len(shape))
    gone = range(len(shape)) if axes is None else axes
    if node.attrs.get("keepdims", 1):
        return [tuple(() if axis in gone else size for axis, size in enumerate(shape))]
    return [tuple(size for axis, size in enumerate(shape) if axis not in gone)]


@rule("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(walk: Walk, node: Any) -> list[Shape]:
    shape = walk.shape(node.inputs[0], node)
    return [(*shape[:2], *((),) * (len(shape) - 2))]


@rule("Reshape", "Flatten")
def _reshape(walk: Walk, node: Any) -> list[Shape]:
    """The shape input is replaced by one that is computed from the free sizes."""
    before, dims = walk.shape(node.inputs[0], node), walk.facts[node.outputs[0].name].dims
    if dims.count(None) > 1:
        raise refuse(node, "spreads the batch over several axes")
    rest = prod(size for size in dims if size is not None)
    following = prod(walk.scale.value(size) for size in before) // rest
    shape = regroup(before, [following if size is None else size for size in dims], walk.scale)
    if shape is None:
        raise refuse(node, f"turns {spell(before)} into {dims}: tokens and other axes are mixed")
    if node.op == "Reshape":
        node.inputs[1] = walk.vector(shape, before)
        node.attrs.pop("allowzero", None)
    return [shape]


@rule("Expand")
def _expand(walk: Walk, node: Any) -> list[Shape]:
    """The shape input is replaced; repeated axes keep their size or follow the batch."""
    before, dims = walk.shape(node.inputs[0], node), walk.facts[node.outputs[0].name].dims
    before = ((),) * (len(dims) - len(before)) + before
    shape = tuple(size or ((BATCH,) if dim is None else plain(dim)) for size, dim in zip(before, dims, strict=True))
    entries = [1 if old else number(new) for old, new in zip(before, shape, strict=True)]
    node.inputs[1] = walk.joined([walk.batch if entry is None else entry for entry in entries])
    return [shape]


def constant_input(node: Any, at: int) -> Array:
    """The values of an input, which must be a constant."""
    tensor = node.inputs[at]
    if not isinstance(tensor, gs.Constant):
        raise refuse(node, f"takes {tensor.name!r} as a place, which is computed")
    return np.asarray(tensor.values)


def _axes(node: Any, rank: int) -> list[int] | None:
    """The axes a node names, as an attribute or as its second input; None if it names none."""
    if "axes" in node.attrs:
        return [axis % rank for axis in node.attrs["axes"]]
    if len(node.inputs) > 1 and node.inputs[1].name:
        return [int(axis) % rank for axis in constant_input(node, 1).ravel()]
    return None
