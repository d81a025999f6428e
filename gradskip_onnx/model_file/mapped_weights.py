"""Weights as read-only arrays over memory-mapped files, one map per file.

Nothing is copied, pages that nobody reads are never loaded, and all sessions of a model share the same pages.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from gradskip_onnx.errors import ModelError
from gradskip_onnx.types import Array
from gradskip_onnx.untrusted_files import open_regular

if TYPE_CHECKING:
    import onnx

LARGE = 1 << 12  # bytes; smaller tensors (shapes, axes, scales) stay in the model: ONNX Runtime reads them before a run
# ONNX element type -> NumPy's, for types whose bytes are the same in a file and in memory.
KINDS: dict[int, str] = {
    1: "<f4", 2: "|u1", 3: "|i1", 4: "<u2", 5: "<i2", 6: "<i4", 7: "<i8", 9: "|b1", 10: "<f2", 11: "<f8", 12: "<u4",
    13: "<u8",
}  # fmt: skip
EXTERNAL = 1  # TensorProto.EXTERNAL
LONGEST_NUMBER = 20  # digits; no file is longer than 64 bits can say

_maps: WeakValueDictionary[tuple[Any, ...], Array] = WeakValueDictionary()  # (device, inode, size, mtime) -> map


@dataclass(frozen=True, slots=True)
class WeightLocation:
    """Where a stored tensor lies: the file as the model names it, and the byte range, element type and shape in it."""

    name: str
    location: str
    offset: int
    kind: str
    dims: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.dims) * np.dtype(self.kind).itemsize

    def array(self, folder: Path | None) -> Array:
        """The tensor as a read-only view of its file in `folder`."""
        whole = bytes_of((folder or Path()) / self.location)
        if self.offset < 0 or self.size < 0 or self.offset + self.size > len(whole):
            raise ModelError(
                f"tensor {self.name!r} should be {self.size} bytes of {self.location} from byte {self.offset} on, "
                f"which has {len(whole)}; the file is cut short, or belongs to another model"
            )
        found = np.asarray(whole[self.offset : self.offset + self.size])
        return found.view(self.kind).reshape(self.dims)


def bytes_of(path: Path) -> Array:
    """A whole file as (size,) uint8; mapped once, and unmapped when no array uses it any more."""
    with open_regular(path) as stream:
        state = os.fstat(stream.fileno())
        key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
        found = _maps.get(key)
        if found is None:
            found = _maps[key] = np.memmap(stream, np.uint8, "r") if state.st_size else np.empty(0, np.uint8)
    return found


def weight_location(tensor: onnx.TensorProto) -> WeightLocation | None:
    """Where a large external tensor lies; None if it is inside the model, small, or of a type that NumPy lacks."""
    if not lies_elsewhere(tensor) or tensor.data_type not in KINDS:
        return None
    entry = {item.key: item.value for item in tensor.external_data}
    offset = entry.get("offset", "0")
    found = WeightLocation(
        name=tensor.name,
        location=entry.get("location", ""),
        offset=int(offset) if offset.isdecimal() and len(offset) < LONGEST_NUMBER else -1,
        kind=KINDS[tensor.data_type],
        dims=tuple(tensor.dims),
    )
    return found if found.size > LARGE else None


def lies_elsewhere(tensor: onnx.TensorProto) -> bool:
    """Whether the value of a tensor is in an external file."""
    return bool(tensor.data_location == EXTERNAL)


def weight_bytes(model: onnx.ModelProto) -> int:
    """Bytes of all weights, inside the model or in files; protobuf's own `ByteSize` fails above 2 GiB."""
    stored = ((weight_location(tensor), tensor) for tensor in model.graph.initializer)
    return sum(len(tensor.raw_data) if place is None else place.size for place, tensor in stored)
