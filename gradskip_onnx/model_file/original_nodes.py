"""The nodes that a built file computes in part: kept in its metadata as they were, and put back when it is read.

A file with an explanation leaves out rows that neither its outputs nor its map read, such as those of the last block
that do not reach the class token. To explain such a file by another method, its graph must be that of the model.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from gradskip_onnx.errors import ModelError

MOST = 64 << 10  # bytes of nodes and constants that are worth keeping


def changed_nodes(
    nodes: Iterable[onnx.NodeProto], constants: Mapping[str, onnx.TensorProto], written: onnx.GraphProto
) -> str | None:
    """The nodes of a model that `written` has otherwise or not at all, with the constants that it lacks, as text.

    None if they take too much room.
    """
    makers = {output: node for node in written.node for output in node.output}
    held = {tensor.name for tensor in written.initializer}
    changed = [node for node in nodes if not _same(node, makers.get(node.output[0]))]
    read = {name for node in changed for name in node.input} - held
    kept = onnx.GraphProto(node=changed)
    for name in sorted(read & constants.keys()):
        if constants[name].data_location == onnx.TensorProto.EXTERNAL:  # a large weight
            return None
        kept.initializer.append(constants[name])
    return _as_text(kept) if kept.ByteSize() <= MOST else None


def _same(node: onnx.NodeProto, written: onnx.NodeProto | None) -> bool:
    """Whether two nodes are one; the one that was written may have further outputs."""
    if written is None or list(written.output[: len(node.output)]) != list(node.output):
        return False
    like = onnx.NodeProto()
    like.CopyFrom(written)
    del like.output[len(node.output) :]
    return like == node


def port_text(port: onnx.ValueInfoProto) -> str:
    """The input of a model that a built file makes of the pixels of an image, as text."""
    return _as_text(port)


def _as_text(message: Any) -> str:
    return base64.b64encode(zlib.compress(message.SerializeToString(deterministic=True), 9)).decode("ascii")


def own_input(model: onnx.ModelProto, text: Any, name: str) -> onnx.ModelProto:
    """A copy of a built model that takes the input of `port_text`, and not the pixels of an image."""
    port, found = _parsed(onnx.ValueInfoProto(), text, name), onnx.ModelProto()
    found.CopyFrom(model)
    defaults = {tensor.name for tensor in found.graph.initializer}
    pixels = {entry.name for entry in found.graph.input} - defaults
    kept = onnx.GraphProto(input=[port, *(entry for entry in found.graph.input if entry.name in defaults)])
    for node in found.graph.node:
        if pixels.isdisjoint(node.input):
            kept.node.append(node)
        else:
            pixels.update(set(node.output) - {port.name})
    found.graph.ClearField("node")
    found.graph.ClearField("input")
    found.graph.node.extend(kept.node)
    found.graph.input.extend(kept.input)
    return found


def _parsed(message: Any, text: Any, name: str) -> Any:
    """A protobuf message from the text in the metadata, which is untrusted."""
    try:
        if not isinstance(text, str) or len(text) > 2 * MOST:
            raise ValueError("it is no text, or too long")
        packed = zlib.decompressobj()
        data = packed.decompress(base64.b64decode(text, validate=True), MOST)
        if not packed.eof:
            raise ValueError(f"it is not whole, or more than {MOST} bytes")
        message.ParseFromString(data)
    except (ValueError, binascii.Error, zlib.error, DecodeError) as broken:
        raise ModelError(f"{name}: the nodes kept in its metadata cannot be read: {broken}") from broken
    return message


def put_back(model: onnx.ModelProto, text: Any, name: str) -> onnx.ModelProto:
    """A copy of a built model with the nodes of `changed_nodes` in place of those that make the same tensors."""
    kept = _parsed(onnx.GraphProto(), text, name)
    found = onnx.ModelProto()
    found.CopyFrom(model)
    made = {output for node in kept.node for output in node.output}
    rest = onnx.GraphProto(node=[node for node in found.graph.node if made.isdisjoint(node.output)])
    found.graph.ClearField("node")
    found.graph.node.extend([*rest.node, *kept.node])
    held = {tensor.name for tensor in found.graph.initializer}
    found.graph.initializer.extend(tensor for tensor in kept.initializer if tensor.name not in held)
    return found
