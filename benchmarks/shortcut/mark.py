"""The mark: a small chequered square in the lower right corner, drawn by code."""

from __future__ import annotations

import numpy as np

from gradskip_onnx.types import Array

INK, PAPER = (255, 0, 200), (255, 255, 255)
SHARE = 0.125  # side of the square as a share of that of the image
MARGIN = 0.02
REGION = "corner=corner:bottom-right:0.2"


def marked(image: Array) -> Array:
    """A copy of an image (H, W, 3) of bytes with the mark."""
    height, width = image.shape[:2]
    side, margin = round(SHARE * min(height, width)), round(MARGIN * min(height, width))
    rows, columns = (np.arange(side) * 4 // side for _ in range(2))
    chequers = (rows[:, None] + columns[None, :]) % 2
    copy = image.copy()
    place = (slice(height - margin - side, height - margin), slice(width - margin - side, width - margin))
    copy[place] = np.where(chequers[..., None] == 1, INK, PAPER)
    return copy
