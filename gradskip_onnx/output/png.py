"""Encodes pictures as PNG, for speed: one filter for all rows, and little effort of the compressor.

Pillow tries five filters on each row, which takes as long as a pass of a small model; files become 5 % larger.
"""

from __future__ import annotations

import importlib
import struct
import zlib
from collections.abc import Callable
from functools import cache

import numpy as np

from gradskip_onnx.types import Array

EFFORT = 1  # of the compressor: the least
UP = 2  # the filter of the format that stores differences to the row above
TRUE_COLOUR = (8, 2, 0, 0, 0)  # bits a channel, RGB, and the only compression, set of filters and order of rows


def encode_png(pixels: Array) -> bytes:
    """A PNG file of pixels (H, W, 3), bytes."""
    height, width, _ = pixels.shape
    flat = pixels.reshape(height, -1)
    rows = np.empty((height, 1 + flat.shape[1]), np.uint8)
    rows[:, 0] = UP
    rows[0, 1:] = flat[0]
    np.subtract(flat[1:], flat[:-1], out=rows[1:, 1:])  # modulo 256, as the format wants
    header = struct.pack(">IIBBBBB", width, height, *TRUE_COLOUR)
    data = compressor()(rows.tobytes(), EFFORT)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


@cache
def compressor() -> Callable[[bytes, int], bytes]:
    """That of the extra `fast` where it is installed, three times as quick for files of the same size; else zlib's."""
    try:
        found: Callable[[bytes, int], bytes] = importlib.import_module("isal.isal_zlib").compress
    except ImportError:
        return zlib.compress
    return found


def _chunk(kind: bytes, content: bytes) -> bytes:
    """Length, kind, content and checksum."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(content, zlib.crc32(kind)))
