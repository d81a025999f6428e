"""Images and maps for tests of drawing."""

from __future__ import annotations

import numpy as np
from PIL import Image

from gradskip_onnx.drawing.heat_map import HeatMap
from gradskip_onnx.images.interpolate import Box
from gradskip_onnx.types import Array


def grey(width: int, height: int, light: int = 128) -> Image.Image:
    return Image.new("RGB", (width, height), (light, light, light))


def hills(width: int, height: int, *, seed: int = 0, count: int = 4) -> Array:
    """A positive map (height, width) of a few round hills."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:height, 0:width] / max(width, height)
    found = np.zeros((height, width))
    for x, y, size, strength in rng.random((count, 4)):
        spot = ((columns - x * width / max(width, height)) ** 2 + (rows - y * height / max(width, height)) ** 2) / 0.01
        found += (0.2 + strength) * np.exp(-spot / (0.1 + size))
    return found.astype(np.float32)


def heat(values: Array, box: Box | None = None, title: str = "", facts: str = "") -> HeatMap:
    """A map of 14 patches a side."""
    height, width = values.shape
    return HeatMap(values.astype(np.float32), (height / 14, width / 14), box, title, facts)
