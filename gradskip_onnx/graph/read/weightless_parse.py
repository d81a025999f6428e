"""Rewrites a model file without its large weights; each becomes an external reference to its bytes in that file.

Parsing a file copies every weight in it. The wire format says how long each field is, so weights can be skipped.
"""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from gradskip_onnx.model_file.mapped_weights import KINDS, LARGE
from gradskip_onnx.model_file.wire_format import BYTES, MODEL_GRAPH, Field, MalformedError, fields_of
from gradskip_onnx.types import Array

GRAPH_INITIALIZER, TENSOR_RAW = 5, 9  # field numbers in onnx.proto


def skeleton(data: Array, location: str) -> bytes | None:
    """The model in `data`, (size,) uint8, without large weights, as bytes to parse; None if it has none.

    `location` is the name of the file, as the references state it.
    """
    try:
        fields = list(fields_of(data, 0, len(data)))
        graphs = [field for field in fields if (field.number, field.kind) == (MODEL_GRAPH, BYTES)]
        if len(graphs) != 1:
            return None
        graph = _without_weights(data, graphs[0], location)
    except MalformedError:
        return None
    if graph is None:
        return None
    rest = b"".join(data[field.start : field.stop].tobytes() for field in fields if field is not graphs[0])
    return rest + _bytes_field(MODEL_GRAPH, graph)


def _without_weights(data: Array, graph: Field, location: str) -> bytes | None:
    parts, changed = [], False
    for field in fields_of(data, graph.value, graph.stop):
        light = _light(data, field, location) if (field.number, field.kind) == (GRAPH_INITIALIZER, BYTES) else None
        parts.append(
            data[field.start : field.stop].tobytes() if light is None else _bytes_field(GRAPH_INITIALIZER, light)
        )
        changed |= light is not None
    return b"".join(parts) if changed else None


def _light(data: Array, tensor: Field, location: str) -> bytes | None:
    """A tensor that refers to its raw data in the file; None if it is small, or not plain raw data."""
    if tensor.stop - tensor.value <= LARGE:
        return None
    fields = list(fields_of(data, tensor.value, tensor.stop))
    raw = [field for field in fields if (field.number, field.kind) == (TENSOR_RAW, BYTES)]
    if len(raw) != 1 or raw[0].stop - raw[0].value <= LARGE:
        return None
    proto = onnx.TensorProto()
    try:
        proto.ParseFromString(b"".join(data[f.start : f.stop].tobytes() for f in fields if f is not raw[0]))
    except DecodeError as broken:
        raise MalformedError from broken
    offset, length = raw[0].value, raw[0].stop - raw[0].value
    kind = KINDS.get(proto.data_type)
    whole = kind is not None and prod(proto.dims) * np.dtype(kind).itemsize == length
    if not whole or proto.external_data or proto.data_location:
        return None
    proto.data_location = onnx.TensorProto.EXTERNAL
    entries = {"location": location, "offset": str(offset), "length": str(length)}
    proto.external_data.extend(onnx.StringStringEntryProto(key=key, value=value) for key, value in entries.items())
    return bytes(proto.SerializeToString())


def _bytes_field(number: int, value: bytes) -> bytes:
    """A field of kind 2: tag, length and content."""
    head, length = bytearray([number << 3 | BYTES]), len(value)
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    return bytes([*head, length]) + value
