"""Lets the backward pass compute large tensors again from small ones, so that it holds those of one block at a time.

An attention is quadratic in the tokens, its queries and keys are linear in them. The copy of the nodes that make it
waits for the gradient that arrives at its first reader: a zero made of one of its numbers is added to what the copy
reads. Otherwise ONNX Runtime would merge the copy with the original, or run it early and hold it just as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.surgeon.element_types import onnx_type
from gradskip_onnx.surgeon.node_writer import PREFIX, NodeWriter
from gradskip_onnx.types import TensorFact

from . import chains
from .chains import activations, bytes_of, chain


def recompute_large(
    graph: gs.Graph, forward: Sequence[Any], outputs: Sequence[str], facts: Mapping[str, TensorFact], opset: int
) -> bool:
    """Make the backward nodes of `graph`, all but `forward`, read copies of large tensors that are made late.

    Nothing changes, and False is returned, if the tensors together are small. `outputs` are read from the graph and
    held anyway.
    """
    early = {id(node) for node in forward}
    late = _late_tensors(graph, early)
    found = [
        (tensor, readers, nodes)
        for node in forward
        for tensor in node.outputs
        if bytes_of(tensor, facts) >= chains.LARGE and tensor.name not in outputs
        and (readers := [reader for reader in tensor.outputs if id(reader) not in early])
        and (nodes := chain(tensor, facts))
    ]  # fmt: skip
    if sum(bytes_of(tensor, facts) for tensor, _, _ in found) <= chains.HELD:
        return False
    write = NodeWriter(graph, opset, f"{PREFIX}again/")
    order = {id(node): place for place, node in enumerate(graph.nodes)}
    for tensor, readers, nodes in found:
        gate = _first_late_input(readers, late, early, order)
        if gate is not None:
            _replace(tensor, readers, copy_late(write, nodes, gate, facts))
    return True


def copy_late(write: NodeWriter, nodes: Sequence[Any], gate: Any, facts: Mapping[str, TensorFact]) -> Any:
    """Append copies of the nodes that wait for `gate`: what they read is delayed; returns the last output."""
    zero, inside = _zero(write, gate), {tensor.name for node in nodes for tensor in node.outputs}
    new: dict[str, Any] = {}
    for node in nodes:
        for tensor in activations(node):
            if tensor.name not in new and tensor.name not in inside:
                new[tensor.name] = _delayed(write, tensor, zero, facts)
        outputs = [write.variable(node.op, tensor.dtype, tensor.shape) for tensor in node.outputs]
        new |= {tensor.name: output for tensor, output in zip(node.outputs, outputs, strict=True)}
        inputs = [new.get(tensor.name, tensor) for tensor in node.inputs]
        write.append(node.op, inputs, outputs, node.attrs, node.domain)
    return new[nodes[-1].outputs[0].name]


def _late_tensors(graph: gs.Graph, early: set[int]) -> set[str]:
    """The tensors of backward nodes that depend on another backward node's choice: on the target or the seed."""
    late = {tensor.name for tensor in graph.inputs[1:]}  # the image is the first input
    for node in graph.nodes:
        if id(node) not in early and any(tensor.name in late for tensor in node.inputs):
            late.update(tensor.name for tensor in node.outputs)
    return late


def _first_late_input(readers: Sequence[Any], late: set[str], early: set[int], order: Mapping[int, int]) -> Any:
    """The earliest gradient that is read beside a tensor, or beside what backward nodes make of it alone."""
    waiting, gates = list(readers), []
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        gradients = [tensor for tensor in node.inputs if tensor.name in late]
        gates += gradients
        if not gradients:
            waiting += [reader for tensor in node.outputs for reader in tensor.outputs if id(reader) not in early]
    made = [gate for gate in gates if gate.inputs]
    return min(made, key=lambda gate: order[id(gate.inputs[0])], default=None)


def _zero(write: NodeWriter, gate: Any) -> Any:
    """A tensor (1,) that is 0 and follows from `gate`."""
    kind = gate.dtype
    flat, first, zero = (write.variable(name, kind) for name in ("flat", "first", "zero"))
    at = [write.constant([number], np.int64) for number in (-1, 0, 1)]
    write.append("Reshape", [gate, at[0]], [flat], {})
    write.append("Slice", [flat, at[1], at[2]], [first], {})
    bounds = [write.constant(0, kind) for _ in range(2)]
    write.append("Clip", [first, *bounds], [zero], {})
    return zero


def _delayed(write: NodeWriter, tensor: Any, zero: Any, facts: Mapping[str, TensorFact]) -> Any:
    """`tensor` + 0 where it holds real numbers; shapes, masks and indices are small and need not wait."""
    fact = facts.get(tensor.name)
    if fact is None or fact.dtype.kind != "f":
        return tensor
    if np.dtype(zero.dtype) != fact.dtype:
        cast = write.variable("zero", fact.dtype)
        write.append("Cast", [zero], [cast], {"to": int(onnx_type(fact.dtype))})
        zero = cast
    delayed = write.variable("delayed", fact.dtype, tensor.shape)
    write.append("Add", [tensor, zero], [delayed], {})
    return delayed


def _replace(tensor: Any, readers: Sequence[Any], copy: Any) -> None:
    for reader in readers:
        reader.inputs = [copy if source is tensor else source for source in reader.inputs]
