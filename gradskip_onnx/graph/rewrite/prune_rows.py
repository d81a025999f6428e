"""Leaves out rows that nothing reads: a selection of rows moves up through operators that work row by row.

A head that reads the class token alone leaves the other rows of the last block unread, from its query on. A pass from
the outputs upwards finds which rows of each tensor are read; then operators are fed only those rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.operators import Kind, of_kind
from gradskip_onnx.surgeon.element_types import numpy_type
from gradskip_onnx.surgeon.node_writer import NodeWriter
from gradskip_onnx.surgeon.sorting import sort_nodes
from gradskip_onnx.types import Array, Dims, TensorFact

from .write import Write

Facts = Mapping[str, TensorFact]
PREFIX = "gradskip/rows/"


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows start, ..., stop - 1 along an axis; None in place of a `Rows` means the whole tensor."""

    axis: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def on(self, axis: int) -> Rows:
        return Rows(axis, self.start, self.stop)


InputRows = list[Rows | None]  # the rows read of each input
Refused = None  # instead of InputRows: the operator cannot compute these rows alone
Narrow = Callable[[Any, Rows, Facts], InputRows | None]

STANDARD = (None, "", "ai.onnx")


def rows_read(graph: gs.Graph, outputs: Iterable[str], facts: Facts) -> dict[str, Rows | None]:
    """The rows of each tensor that the outputs depend on; tensors they do not depend on are left out."""
    read: dict[str, Rows | None] = dict.fromkeys(outputs)
    for node in reversed(graph.nodes):
        if any(output.name in read for output in node.outputs):
            for tensor, rows in zip(node.inputs, _input_rows(node, read, facts), strict=True):
                read[tensor.name] = _union(read[tensor.name], rows) if tensor.name in read else rows
            read |= dict.fromkeys(_captured(node))
    return read


def _captured(node: Any) -> set[str]:
    """Names read inside the bodies of If, Loop and Scan, among them tensors of the outer graph."""
    bodies = [value for value in node.attrs.values() if isinstance(value, gs.Graph)]
    inner = [inside for body in bodies for inside in body.nodes]
    return {tensor.name for each in inner for tensor in each.inputs}.union(*(_captured(each) for each in inner))


def prune_rows(graph: gs.Graph, outputs: Iterable[str], facts: Facts) -> dict[str, TensorFact]:
    """Stop computing rows that the outputs do not depend on, in place; returns the updated facts."""
    read, written = rows_read(graph, outputs, facts), dict(facts)
    kept: dict[str, Rows] = {}  # tensors of which only some rows are computed
    cuts: dict[tuple[str, Rows], Any] = {}
    write = Write(NodeWriter(graph, graph.opset, PREFIX), facts)
    for node in list(graph.nodes):
        part = _part(node, read, facts)
        if part is None:
            if (chosen := _selection(node, facts)) and node.inputs[0].name in kept:
                _select_again(write, node, kept[node.inputs[0].name], chosen)
            continue
        for index, rows in enumerate(_input_rows(node, read, facts)):
            if rows is not None:
                node.inputs[index] = _cut(write, node.inputs[index], rows, kept, written, cuts)
        output = node.outputs[0].name
        if node.op == "Reshape":
            node.inputs[1] = write.ints(*_shape(node, part, facts))
        kept[output] = part
        written[output] = _with(written[output], part)
        for tensor in node.outputs:
            tensor.shape = None
    sort_nodes(graph)
    return written


def _part(node: Any, read: Mapping[str, Rows | None], facts: Facts) -> Rows | None:
    """The rows that a node can be narrowed to, or None; more outputs than the first (statistics) must not be read."""
    first, *more = node.outputs
    if first.name not in read or any(output.name in read for output in more):
        return None
    rows = read[first.name]
    if rows is None or not _worthwhile(rows, facts.get(first.name)):
        return None
    has_rule = node.op in NARROW and node.domain in STANDARD
    return rows if has_rule and NARROW[node.op](node, rows, facts) is not Refused else None


def _worthwhile(rows: Rows, fact: TensorFact | None) -> bool:
    size = None if fact is None else fact.dims[rows.axis]
    return size is not None and 2 * rows.size <= size


def _input_rows(node: Any, read: Mapping[str, Rows | None], facts: Facts) -> InputRows:
    """The rows that a node reads of each of its inputs."""
    chosen = _selection(node, facts)
    if chosen is not None:
        return [chosen, *(None for _ in node.inputs[1:])]
    part = _part(node, read, facts)
    found = None if part is None else NARROW[node.op](node, part, facts)
    return [None] * len(node.inputs) if found is None else found


def _union(one: Rows | None, other: Rows | None) -> Rows | None:
    if one is None or other is None or one.axis != other.axis:
        return None
    return Rows(one.axis, min(one.start, other.start), max(one.stop, other.stop))


def _selection(node: Any, facts: Facts) -> Rows | None:
    """The rows that a Gather or Slice with constant indices reads of an activation, else None."""
    if node.op not in ("Gather", "Slice") or not all(isinstance(tensor, gs.Constant) for tensor in node.inputs[1:]):
        return None
    fact = facts.get(node.inputs[0].name)
    numbers = [np.asarray(tensor.values) for tensor in node.inputs[1:]]
    if fact is None or fact.dtype.kind != "f" or any(not array.size for array in numbers):
        return None
    if node.op == "Slice":
        return _slice(numbers, fact.dims)
    axis = node.attrs.get("axis", 0) % len(fact.dims)
    size = fact.dims[axis]
    if size is None:
        return None
    places = numbers[0] % size
    return Rows(axis, int(places.min()), int(places.max()) + 1)


def _slice(numbers: list[Array], dims: Dims) -> Rows | None:
    """The rows of a Slice along one axis with step 1, else None."""
    if (
        len(numbers) < 3
        or any(array.size != 1 for array in numbers)
        or int(numbers[3].item() if numbers[3:] else 1) != 1
    ):
        return None
    axis = int(numbers[2].item()) % len(dims)
    size = dims[axis]
    if size is None:
        return None
    start, stop, _ = slice(int(numbers[0].item()), int(numbers[1].item())).indices(size)
    return Rows(axis, start, stop) if start < stop else None


def _select_again(write: Write, node: Any, kept: Rows, chosen: Rows) -> None:
    """Shift the indices of a Gather or Slice whose input now starts at row `kept.start`."""
    if node.op == "Gather":
        size, places = write.facts[node.inputs[0].name].dims[chosen.axis], np.asarray(node.inputs[1].values)
        node.inputs[1] = write.const(places % size - kept.start, places.dtype)
    else:
        bounds = (chosen.start - kept.start, chosen.stop - kept.start)
        for index, number in enumerate(bounds, 1):
            node.inputs[index] = write.ints(number)


def _cut(
    write: Write, tensor: Any, rows: Rows, kept: Mapping[str, Rows], written: dict[str, TensorFact],
    cuts: dict[tuple[str, Rows], Any],
) -> Any:  # fmt: skip
    """`rows` of a tensor that may be narrowed already; equal cuts share one Slice."""
    first = kept[tensor.name].start if tensor.name in kept else 0
    if tensor.name in kept and kept[tensor.name] == rows:
        return tensor
    if (tensor.name, rows) not in cuts:
        bounds = (write.ints(number) for number in (rows.start - first, rows.stop - first, rows.axis))
        fact = written.get(tensor.name) or TensorFact(tuple(tensor.shape), numpy_type(tensor.dtype))
        part = write.op("Slice", tensor, *bounds, gives=fact.dtype)
        written[part.name] = _with(fact, rows)
        cuts[tensor.name, rows] = part
    return cuts[tensor.name, rows]


def _with(fact: TensorFact, rows: Rows) -> TensorFact:
    return TensorFact((*fact.dims[: rows.axis], rows.size, *fact.dims[rows.axis + 1 :]), fact.dtype)


# --- one function per kind of operator: the rows it reads of each input to compute `rows` of its output ---------------


def _dims(tensor: Any, facts: Facts) -> Dims | None:
    if isinstance(tensor, gs.Constant):
        return tuple(tensor.shape)
    return facts[tensor.name].dims if tensor.name in facts else None


def unary(_node: Any, rows: Rows, _facts: Facts) -> InputRows | None:
    return [rows]


def broadcast(node: Any, rows: Rows, facts: Facts) -> InputRows | None:
    return _broadcast_rows(node.inputs, facts[node.outputs[0].name].dims, rows, facts)


def _broadcast_rows(tensors: Iterable[Any], out: Dims, rows: Rows, facts: Facts) -> InputRows | None:
    """The rows of each tensor that are read for `rows` of a result of shape `out` that all of them broadcast to."""
    read: InputRows = []
    for tensor in tensors:
        dims = _dims(tensor, facts)
        if dims is None:
            return Refused
        axis = rows.axis - (len(out) - len(dims))
        read.append(rows.on(axis) if axis >= 0 and dims[axis] == out[rows.axis] else None)
    return read


def normalisation(node: Any, rows: Rows, facts: Facts) -> InputRows | None:
    axis = node.attrs.get("axis", -1) % len(facts[node.outputs[0].name].dims)
    return [rows, *(None for _ in node.inputs[1:])] if rows.axis < axis else Refused


def softmax(node: Any, rows: Rows, facts: Facts) -> InputRows | None:
    axis = node.attrs.get("axis", -1) % len(facts[node.outputs[0].name].dims)
    return [rows] if rows.axis != axis else Refused


def reduction(node: Any, rows: Rows, facts: Facts) -> InputRows | None:
    axes = node.attrs.get("axes")
    if axes is None and len(node.inputs) > 1 and isinstance(node.inputs[1], gs.Constant):
        axes = node.inputs[1].values.tolist()
    rank = len(facts[node.outputs[0].name].dims)
    if not axes or not node.attrs.get("keepdims", 1) or rows.axis in [axis % rank for axis in axes]:
        return Refused
    return [rows, *(None for _ in node.inputs[1:])]


def matmul(node: Any, rows: Rows, facts: Facts) -> InputRows | None:
    a, b = (_dims(tensor, facts) for tensor in node.inputs)
    rank = len(facts[node.outputs[0].name].dims)
    if a is None or b is None or len(a) < 2 or len(b) < 2 or rows.axis != rank - 2:
        return Refused
    return [rows.on(len(a) - 2), None]


def gemm(node: Any, rows: Rows, facts: Facts) -> InputRows | None:
    if rows.axis != 0 or node.attrs.get("transA", 0):
        return Refused
    added = _broadcast_rows(node.inputs[2:], facts[node.outputs[0].name].dims, rows, facts)
    return Refused if added is None else [rows, None, *added]


def transpose(node: Any, rows: Rows, facts: Facts) -> InputRows | None:
    rank = len(facts[node.outputs[0].name].dims)
    return [rows.on(node.attrs.get("perm", list(range(rank))[::-1])[rows.axis])]


def reshape(node: Any, rows: Rows, facts: Facts) -> InputRows | None:
    """The axis must come from an input axis of the same size with equally many elements in front of it."""
    before, after = _dims(node.inputs[0], facts), facts[node.outputs[0].name].dims
    if before is None or not isinstance(node.inputs[1], gs.Constant) or node.attrs.get("allowzero", 0):
        return Refused
    for axis, size in enumerate(before):
        if size == after[rows.axis] and _volume(before[:axis]) == _volume(after[: rows.axis]):
            return [rows.on(axis), None]
    return Refused


def _volume(dims: Dims) -> tuple[int, int]:
    return dims.count(None), prod(size for size in dims if size is not None)


def _shape(node: Any, rows: Rows, facts: Facts) -> list[int]:
    """The target shape of a Reshape that is narrowed to `rows`."""
    shape = np.array([-1 if size is None else size for size in facts[node.outputs[0].name].dims])
    shape[rows.axis] = rows.size
    if (shape < 0).sum() > 1:
        shape = np.where(np.asarray(node.inputs[1].values) == 0, 0, shape)
    return [int(size) for size in shape]


def squeeze(node: Any, rows: Rows, facts: Facts) -> InputRows | None:
    before, after = _dims(node.inputs[0], facts), facts[node.outputs[0].name].dims
    if before is None or len(node.inputs) < 2 or not isinstance(node.inputs[1], gs.Constant):
        return Refused
    rank = max(len(before), len(after))
    gone = {int(axis) % rank for axis in np.ravel(node.inputs[1].values)}
    rest = [axis for axis in range(rank) if axis not in gone]
    if node.op == "Squeeze":
        return [rows.on(rest[rows.axis]), None]
    return Refused if rows.axis in gone else [rows.on(rest.index(rows.axis)), None]


NARROW: dict[str, Narrow] = {
    **dict.fromkeys(of_kind(Kind.UNARY), unary),
    **dict.fromkeys(of_kind(Kind.BROADCASTS) | {"Clip"}, broadcast),
    **dict.fromkeys(of_kind(Kind.NORMALISES_ROWS), normalisation),
    **dict.fromkeys(of_kind(Kind.REDUCES), reduction),
    **dict.fromkeys(of_kind(Kind.PROBABILITIES), softmax),
    **dict.fromkeys(("Squeeze", "Unsqueeze"), squeeze),
    "MatMul": matmul,
    "Gemm": gemm,
    "Transpose": transpose,
    "Reshape": reshape,
}
