"""Lets ONNX Runtime keep its integer softmax where the attention is shown or differentiated before it is rounded.

It runs dequantise, softmax, quantise as one integer kernel only if nobody else reads the softmax. Its table of powers
rounds some entries otherwise than a softmax of real numbers does, and such a step can change the logits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx_graphsurgeon as gs

from gradskip_onnx.surgeon.node_writer import NodeWriter
from gradskip_onnx.types import TensorFact


def split_rounded_softmax(graph: gs.Graph, shown: Collection[str], facts: Mapping[str, TensorFact], opset: int) -> None:
    """Give the rounding of a softmax that is read elsewhere, or `shown`, a softmax of its own."""
    write = NodeWriter(graph, opset)
    for node in [node for node in graph.nodes if node.op == "Softmax"]:
        whole = node.outputs[0]
        rounds = [reader for reader in whole.outputs if reader.op == "QuantizeLinear" and whole is reader.inputs[0]]
        if not rounds or whole.name not in facts or (len(rounds) == len(whole.outputs) and whole.name not in shown):
            continue
        fact, axis = facts[whole.name], int(node.attrs.get("axis", -1))
        again = write.variable("softmax", fact.dtype, fact.dims)
        # the same axis counted from the other end: equal nodes would be merged to one again
        other = axis + len(fact.dims) if axis < 0 else axis - len(fact.dims)
        write.append("Softmax", node.inputs, [again], {"axis": other})
        for reader in rounds:
            reader.inputs[0] = again
