"""Refuses models that compute in bfloat16, which has no CPU kernels in ONNX Runtime; weights stored in it are fine."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from gradskip_onnx.errors import UnsupportedModelError

BFLOAT16 = onnx.TensorProto.BFLOAT16
# What stands between stored weights and the cast that widens them.
MOVERS = frozenset({"Identity", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Gather", "Split"})
ADVICE = "convert the file to float32 or float16, or keep only its weights in bfloat16"


def refusal(where: str, op: str) -> UnsupportedModelError:
    """The error for a node that computes in bfloat16."""
    return UnsupportedModelError(
        "no-kernel",
        f"node {where!r} ({op}) computes in bfloat16, which ONNX Runtime's CPU cannot; {ADVICE}",
    )


def first_bfloat16_node(graph: onnx.GraphProto) -> onnx.NodeProto | None:
    """The first node with bfloat16 arithmetic, or None; casts and nodes that only move values do not count."""
    narrow = {tensor.name for tensor in graph.initializer if tensor.data_type == BFLOAT16}
    narrow |= {info.name for info in graph.input if info.type.tensor_type.elem_type == BFLOAT16}
    nodes: Sequence[onnx.NodeProto] = graph.node
    for node in nodes:
        to = next((entry.i for entry in node.attribute if entry.name == "to"), None)
        if to is None and not narrow.isdisjoint(node.input):
            if node.op_type not in MOVERS:
                return node
            narrow.update(node.output)
        elif to == BFLOAT16:
            narrow.update(node.output)
    return None
