"""Smooth coloured images of any size, and their bytes."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image


def picture(height: int, width: int, seed: int = 0) -> Image.Image:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (max(2, height // 9), max(2, width // 7), 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def encode(image: Image.Image, fmt: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, fmt, **options)
    return buffer.getvalue()
