"""Made-up pictures: arrays of pixels, of floats, and the bytes of a file."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image

from gradskip_onnx.types import Array

LABELS = ("cat", "dog", "bird", "fish", "elk")  # of the model that `explainer` opens
BATCHED: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-7}  # batching changes the order of sums inside a matrix product


def pixels(seed: int = 0, size: tuple[int, ...] = (40, 60, 3)) -> Array:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def floats(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def png(values: Array) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, "PNG")
    return buffer.getvalue()
