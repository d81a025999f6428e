"""Lets ONNX Runtime keep the integer kernels of a quantised file in a graph that shows and differentiates its tensors.

It runs dequantise, compute, quantise as one integer kernel only if nobody else reads the result before it is rounded.
Such a kernel rounds some entries otherwise than the same operator of real numbers does (a softmax has a table of
powers), and one step can change the logits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import onnx_graphsurgeon as gs

from gradskip_onnx.surgeon.node_writer import NodeWriter
from gradskip_onnx.types import TensorFact

ROUNDED = frozenset({"Conv", "MatMul", "Gemm", "Add", "Mul"})  # results that have an integer kernel


def keep_integer_kernels(
    graph: gs.Graph, forward: Sequence[Any], shown: Collection[str], facts: Mapping[str, TensorFact], opset: int
) -> None:
    """Free the results of integer kernels from readers other than their rounding; `forward` are the file's nodes."""
    _read_rounded(NodeWriter(graph, opset), forward, shown, facts)
    _split_softmax(graph, shown, facts, opset)


def _read_rounded(
    write: NodeWriter, forward: Sequence[Any], shown: Collection[str], facts: Mapping[str, TensorFact]
) -> None:
    """Let backward nodes read what a result is rounded to: the result itself is nowhere in the file's own run."""
    own = {id(node) for node in forward}
    for node in forward:
        exact = node.inputs[0] if node.op == "QuantizeLinear" else None
        if exact is None or not exact.inputs or exact.inputs[0].op not in ROUNDED or exact.name in shown:
            continue
        late = [reader for reader in exact.outputs if id(reader) not in own]
        if late and exact.name in facts:
            rounded = write.variable("rounded", facts[exact.name].dtype, facts[exact.name].dims)
            write.append("DequantizeLinear", [node.outputs[0], *node.inputs[1:]], [rounded], node.attrs)
            for reader in late:
                reader.inputs = [rounded if tensor is exact else tensor for tensor in reader.inputs]


def _split_softmax(graph: gs.Graph, shown: Collection[str], facts: Mapping[str, TensorFact], opset: int) -> None:
    """Give the rounding of a softmax that is read elsewhere, or `shown`, a softmax of its own."""
    write = NodeWriter(graph, opset)
    for node in [node for node in graph.nodes if node.op == "Softmax" and node.outputs[0].name in facts]:
        exact = node.outputs[0]
        rounds = [reader for reader in exact.outputs if reader.op == "QuantizeLinear" and exact is reader.inputs[0]]
        if not rounds or (len(rounds) == len(exact.outputs) and exact.name not in shown):
            continue
        fact, axis = facts[exact.name], int(node.attrs.get("axis", -1))
        again = write.variable("softmax", fact.dtype, fact.dims)
        # the same axis counted from the other end: equal nodes would be merged to one again
        other = axis + len(fact.dims) if axis < 0 else axis - len(fact.dims)
        write.append("Softmax", node.inputs, [again], {"axis": other})
        for reader in rounds:
            reader.inputs[0] = again
