"""Moves 1 x 1 convolutions in front of enlargements, where there are fewer pixels to convolve.

A 1 x 1 convolution treats every pixel alike and enlarging treats every channel alike, so
W [up(x_1); ..; up(x_k)] + b = up(W_1 x_1) + .. + up(W_k x_k) + b, W_i being the columns of W that meet x_i. Decoders
that enlarge the maps of all stages to the finest one and fuse them do most of their work there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

import onnx_graphsurgeon as gs

from gradskip_onnx.surgeon.node_writer import NodeWriter
from gradskip_onnx.surgeon.sorting import sort_nodes
from gradskip_onnx.types import TensorFact

from .write import Write

OPERATORS = ("Conv", "Concat", "Resize", "Add")  # the rewrite is valid only if these have their true gradient rules
PREFIX = "gradskip/early"


@dataclass(frozen=True, slots=True)
class _Part:
    """One input of the concatenation: what is convolved, and the node that enlarges it, if one does."""

    tensor: Any
    enlarged_by: Any | None


def mix_before_enlarging(
    graph: gs.Graph, shown: Iterable[str], facts: Mapping[str, TensorFact]
) -> dict[str, TensorFact]:
    """Move convolutions in front of the enlargements they follow, in place; returns the updated facts."""
    keep, written = set(shown), dict(facts)
    for node in [node for node in graph.nodes if _mixes_channels(node)]:
        joined = node.inputs[0].inputs[0] if node.inputs[0].inputs else None
        if joined is None or joined.op != "Concat" or not _private(joined.outputs[0], node, keep):
            continue
        parts = [_part(tensor, joined, keep, facts) for tensor in joined.inputs]
        channels = [_size(part.tensor, 1, facts) for part in parts]
        plain = [part for part in parts if part.enlarged_by is None]
        mixed = node.inputs[1].shape[0]
        if joined.attrs["axis"] == 1 and len(plain) == 1 and len(parts) > 1 and set(channels) == {mixed}:
            _rewrite(graph, node, parts, channels, written)
    sort_nodes(graph.cleanup())
    return written


def _mixes_channels(node: Any) -> bool:
    """Whether a node is a 1 x 1 convolution with stored weights."""
    if node.op != "Conv" or not isinstance(node.inputs[1], gs.Constant) or node.attrs.get("group", 1) != 1:
        return False
    moves = any(node.attrs.get("pads", [])) or node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    strides = any(stride != 1 for stride in node.attrs.get("strides", []))
    return tuple(node.inputs[1].shape[2:]) == (1, 1) and not moves and not strides


def _part(tensor: Any, joined: Any, keep: set[str], facts: Mapping[str, TensorFact]) -> _Part:
    node = tensor.inputs[0] if tensor.inputs else None
    if node is None or node.op != "Resize" or not _private(tensor, joined, keep):
        return _Part(tensor, None)
    before, after = (facts.get(each.name) for each in (node.inputs[0], tensor))
    if before is None or after is None or None in (*before.dims[2:], *after.dims[2:]):
        return _Part(tensor, None)
    if before.dims == after.dims:  # ONNX Runtime then copies, whatever the scales are
        return _Part(node.inputs[0], None)
    cropped = node.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    grows = prod(_pixel_sizes(before)) < prod(_pixel_sizes(after)) and before.dims[:2] == after.dims[:2]
    return _Part(node.inputs[0], node) if grows and not cropped else _Part(tensor, None)


def _pixel_sizes(fact: TensorFact) -> list[int]:
    return [size for size in fact.dims[2:] if size is not None]


def _private(tensor: Any, reader: Any, keep: set[str]) -> bool:
    return tensor.name not in keep and all(node is reader for node in tensor.outputs)


def _size(tensor: Any, axis: int, facts: Mapping[str, TensorFact]) -> int | None:
    return facts[tensor.name].dims[axis] if tensor.name in facts else None


def _rewrite(
    graph: gs.Graph, node: Any, parts: Sequence[_Part], channels: Sequence[Any], written: dict[str, TensorFact]
) -> None:
    """Replace `node` by the sum of one convolution per part; the part that is not enlarged gets the bias."""
    kernel, bias, output = node.inputs[1], list(node.inputs[2:]), node.outputs[0]
    whole, attrs = written[output.name], dict(node.attrs)
    node.outputs.clear()
    write = Write(NodeWriter(graph, graph.opset, f"{PREFIX}/{node.name}/"), written)
    enlarged, plain = [], None
    for part, stop, width in zip(parts, accumulate(channels), channels, strict=True):
        weights = write.op("Slice", kernel, *(write.ints(bound) for bound in (stop - width, stop, 1)))
        written[weights.name] = TensorFact((kernel.shape[0], width, 1, 1), whole.dtype)
        part_bias = [] if part.enlarged_by is not None else bias
        mixed = write.op("Conv", part.tensor, weights, *part_bias, **attrs)
        written[mixed.name] = TensorFact((*whole.dims[:2], *written[part.tensor.name].dims[2:]), whole.dtype)
        if part.enlarged_by is None:
            plain = mixed
        else:
            resize = part.enlarged_by
            enlarged.append(write.op("Resize", mixed, *resize.inputs[1:], **resize.attrs))
            written[enlarged[-1].name] = whole
    total = enlarged[0]
    for more in enlarged[1:]:
        total = write.op("Add", total, more)
        written[total.name] = whole
    write.into(output, "Add", plain, total)
