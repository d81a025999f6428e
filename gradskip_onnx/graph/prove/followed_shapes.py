"""Shapes that follow from other shapes: an elementwise operator gives what its inputs are broadcast to.

Only the others are measured, so a run has fewer outputs; ONNX Runtime takes long over thousands of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from gradskip_onnx.operators import Kind, of_kind

STANDARD = ("", "ai.onnx")
BROADCAST = of_kind(Kind.BROADCASTS)
# Operators whose only output has the shape of their first input.
KEPT = of_kind(Kind.UNARY | Kind.PROBABILITIES | Kind.NORMALISES | Kind.QUANTISES | Kind.DEQUANTISES) | {"Clip"}

Shape = tuple[int, ...]


def shape_givers(node: onnx.NodeProto) -> Sequence[str]:
    """The inputs whose shapes, broadcast, are the shape of the node's output; none if they do not tell it."""
    if node.domain not in STANDARD or len(node.output) != 1:
        return ()
    givers: Sequence[str] = node.input
    if node.op_type in KEPT:
        return givers[:1]
    return givers if node.op_type in BROADCAST else ()


def unfollowed(nodes: Sequence[onnx.NodeProto], tensors: Sequence[str], given: Mapping[str, Shape]) -> list[str]:
    """Those of `tensors` whose shapes must be measured; the shapes of `given` are known."""
    wanted, known = set(tensors), set(given)
    measured = []
    for node in nodes:
        givers = shape_givers(node)
        if not givers or not known.issuperset(givers):
            measured += [name for name in node.output if name in wanted]
        known.update(name for name in node.output if name in wanted)
    return measured


def follow(nodes: Sequence[onnx.NodeProto], tensors: Sequence[str], known: Mapping[str, Shape]) -> dict[str, Shape]:
    """The shape of each of `tensors`, from those that are stored or were measured."""
    shapes = dict(known)
    for node in nodes:
        for name in node.output:
            if name and name not in shapes:
                givers = [shapes[giver] for giver in shape_givers(node) if giver in shapes]
                if givers:
                    shapes[name] = _broadcast(givers)
    return {name: shapes[name] for name in tensors}


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    first, *others = shapes
    return first if all(other in ((), first) for other in others) else np.broadcast_shapes(*shapes)
