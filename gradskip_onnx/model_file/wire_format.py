"""The wire format of protocol buffers, as far as skipping needs it.

A field starts with its number and kind, and one of kind 2 continues with its length, so what a field holds can be
passed over without reading it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gradskip_onnx.types import Array

MODEL_GRAPH, GRAPH_NODE = 7, 1  # field numbers in onnx.proto
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
LONGEST = 10  # bytes of a varint


class Field(NamedTuple):
    """One field of a message: bytes start:stop, of which value:stop are its content."""

    number: int
    kind: int
    start: int
    value: int
    stop: int


class MalformedError(ValueError):
    """Not the wire format; a file like this is parsed in full, and protobuf reports the error."""


def fields_of(data: Array, at: int, stop: int) -> Iterator[Field]:
    """The fields of the message in data[at:stop]."""
    while at < stop:
        start = at
        tag, at = _varint(data, at, stop)
        kind, value = tag & 7, at
        if kind == VARINT:
            at = _varint(data, at, stop)[1]
        elif kind == BYTES:
            length, value = _varint(data, at, stop)
            at = value + length
        elif kind in (FIXED64, FIXED32):
            at += 8 if kind == FIXED64 else 4
        else:
            raise MalformedError
        if at > stop:
            raise MalformedError
        yield Field(tag >> 3, kind, start, value, at)


def _varint(data: Array, at: int, stop: int) -> tuple[int, int]:
    """The number at `at`, stored in groups of seven bits, lowest first, and the position after it."""
    number = 0
    for place, byte in enumerate(data[at : min(at + LONGEST, stop)].tobytes()):
        number |= (byte & 127) << (7 * place)
        if byte < 128:
            return number, at + place + 1
    raise MalformedError


def count_nodes(model: bytes) -> int:
    """The nodes of the outer graph of a serialised model; 0 if it is none."""
    data = np.frombuffer(model, np.uint8)
    try:
        graphs = [f for f in fields_of(data, 0, len(data)) if (f.number, f.kind) == (MODEL_GRAPH, BYTES)]
        return sum(f.number == GRAPH_NODE for graph in graphs for f in fields_of(data, graph.value, graph.stop))
    except MalformedError:
        return 0
