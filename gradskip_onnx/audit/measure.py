"""Numbers that say where a map lies: its peak, centre and spread, and its share in any part of the image.

An entry of a map stands for a rectangle of the model's image, over which its score is spread evenly. Shares are those
of the positive scores: what spoke for the class.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from PIL import Image

from gradskip_onnx.methods.gradskip.gini import gini_of_values
from gradskip_onnx.types import Array, Size

BORDER = 0.1  # of the height and of the width, on each side


def map_numbers(scores: Array) -> dict[str, Any]:
    """The columns of a row from `map_total` to `border`, of a map (rows, columns); None where nothing is positive."""
    values = scores.astype(np.float64)
    strength = np.abs(values).sum()
    rows, columns = _middles(values.shape[0]), _middles(values.shape[1])
    peak = np.unravel_index(int(values.argmax()), values.shape)
    found: dict[str, Any] = {
        "map_total": float(values.sum()),
        "negative_share": float(np.maximum(-values, 0).sum() / strength) if strength else 0.0,
        "peak_row": float(rows[peak[0]]),
        "peak_column": float(columns[peak[1]]),
    }
    positive = np.maximum(values, 0)
    total = positive.sum()
    if not total:
        return found
    down, across = positive.sum(axis=1) / total, positive.sum(axis=0) / total
    centre_row, centre_column = float(down @ rows), float(across @ columns)
    variance = float(down @ (rows - centre_row) ** 2 + across @ (columns - centre_column) ** 2)
    return found | {
        "centre_row": centre_row,
        "centre_column": centre_column,
        "spread": math.sqrt(variance / 2),  # the diagonal of the unit square is the root of 2
        "concentration": float(gini_of_values(positive.reshape(1, -1).copy())[0]),
        "border": share_in(scores, border_cover(values.shape)),
    }


def share_in(scores: Array, cover: Array) -> float | None:
    """The share of the positive scores where `cover` is, the covered share of each entry; None if none is positive."""
    positive = np.maximum(scores.astype(np.float64), 0)
    total = positive.sum()
    return float((positive * cover).sum() / total) if total else None


def border_cover(size: Size) -> Array:
    """How much of each entry of a map lies in the outermost tenth on each side, (rows, columns)."""
    inner = [_overlap(length, BORDER, 1 - BORDER) for length in size]
    return 1 - np.outer(inner[0], inner[1])


def cover_of(pixels: Array, size: Size) -> Array:
    """Which share of each entry of a map of `size` the pixels (H, W) of the model's input cover."""
    if pixels.shape == size:
        return pixels.astype(np.float64)
    image = Image.fromarray(pixels.astype(np.float32))
    return np.asarray(image.resize(size[::-1], Image.Resampling.BOX), np.float64)


def peak_in(scores: Array, pixels: Array) -> bool:
    """Whether the middle of the strongest entry lies on one of the pixels (H, W)."""
    peak = np.unravel_index(int(scores.argmax()), scores.shape)
    at = (int((place + 0.5) / cells * length)
          for place, cells, length in zip(peak, scores.shape, pixels.shape, strict=True))  # fmt: skip
    return bool(pixels[tuple(at)])


def _middles(count: int) -> Array:
    return np.asarray((np.arange(count) + 0.5) / count)


def _overlap(count: int, low: float, high: float) -> Array:
    """Which share of each of `count` equal parts of 0..1 lies between low and high."""
    edges = np.arange(count + 1) / count
    return np.asarray(np.maximum(np.minimum(edges[1:], high) - np.maximum(edges[:-1], low), 0) * count)
