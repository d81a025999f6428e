"""Takes out the nodes that only hand on what they read, so that patterns, composites and rules never meet one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableSequence, Sequence
from typing import Any

import onnx_graphsurgeon as gs

from gradskip_onnx.surgeon.element_types import onnx_type
from gradskip_onnx.surgeon.private_names import detach, outer_tensors, peek

STANDARD = (None, "", "ai.onnx")


def take_out_copies(graph: gs.Graph) -> None:
    """Make, in place, every node that reads a copy read the original; `cleanup` drops the nodes that copied.

    Inputs and outputs of the graph keep their names: where a copy is an output, the original takes its name. A node
    stays where one value needs two names, since an output is also an input, a constant or another output, and where
    the body of an If, Loop or Scan reads it, whose names are its own matter. No other node reads it then.
    """
    outputs = {id(tensor) for tensor in graph.outputs}
    in_bodies = {id(tensor) for node in graph.nodes for body in node.subgraphs() for tensor in outer_tensors(body)}
    fixed = outputs | in_bodies  # names that must stay
    copies = [node for node in graph.nodes if is_copy(node) and not _needed(node.outputs[1:], outputs)]
    read = {id(node.outputs[0]): node.inputs[0] for node in copies}
    origins = {copy: _origin(original, read) for copy, original in list(read.items())}
    named: dict[int, gs.Tensor] = {}  # original -> the output whose name it takes
    gone = []
    for node in copies:
        copy, origin = node.outputs[0], origins[id(node.outputs[0])]
        if id(copy) not in fixed:
            gone.append(node)
        elif id(copy) in outputs and origin.inputs and id(origin) not in fixed and id(origin) not in named:
            named[id(origin)] = copy
            gone.append(node)
    detach(gone)

    def made(tensor: gs.Tensor) -> gs.Tensor:
        return named.get(id(tensor), tensor)

    for node in graph.nodes:
        _exchange(node.inputs, lambda tensor: made(origins.get(id(tensor), tensor)))
        _exchange(node.outputs, made)


def _needed(tensors: Sequence[gs.Tensor], outputs: Collection[int]) -> bool:
    return any(tensor.outputs or id(tensor) in outputs for tensor in tensors)


def _exchange(tensors: MutableSequence[gs.Tensor], new: Callable[[gs.Tensor], gs.Tensor]) -> None:
    for at, tensor in enumerate(tensors):
        if new(tensor) is not tensor:
            tensors[at] = new(tensor)


def _origin(tensor: gs.Tensor, read: dict[int, gs.Tensor]) -> gs.Tensor:
    """The tensor at the start of a chain of copies; `read` is what each reads, and its paths are shortened."""
    path: list[int] = []
    while id(tensor) in read and len(path) <= len(read):
        path.append(id(tensor))
        tensor = read[id(tensor)]
    read.update(dict.fromkeys(path, tensor))
    return tensor


def is_copy(node: gs.Node) -> bool:
    """Whether the first output of a node is its first input."""
    row = COPIES.get(node.op) if node.domain in STANDARD else None
    return row is not None and bool(node.inputs) and bool(node.outputs) and row(node)


def _drops_nothing(node: gs.Node) -> bool:
    """Whether a Dropout does not train."""
    training: Any = node.inputs[2] if len(node.inputs) > 2 else None
    return training is None or not training.name or (isinstance(training, gs.Constant) and not peek(training).any())


def _same_type(node: gs.Node) -> bool:
    kind = node.inputs[0].dtype  # None: the file does not say
    return kind is not None and onnx_type(kind) == onnx_type(node.attrs["to"])


def _lone(node: gs.Node) -> bool:
    return len(node.inputs) == 1


def _in_order(node: gs.Node) -> bool:
    order = list(node.attrs.get("perm", ()))
    return bool(order) and order == sorted(order)


COPIES: Mapping[str, Callable[[gs.Node], bool]] = {
    "Identity": _lone,
    "Dropout": _drops_nothing,
    "Cast": _same_type,
    "Transpose": _in_order,
    **dict.fromkeys(("Concat", "Sum", "Mean", "Max", "Min"), _lone),
}
