"""What is changed at will in a batch of images before a model learns from it; each function returns a new batch."""

from __future__ import annotations

import numpy as np

from gradskip_onnx.types import Array

SHIFT = 4  # pixels
GAIN, OFFSET = 0.15, 20.0  # of brightness, relative and in 255ths


def shift_and_flip(images: Array, rng: np.random.Generator) -> Array:
    """Each image moved by up to four pixels both ways, its edge mirrored, and flipped in half of the cases."""
    height, width = images.shape[1:3]
    room = np.pad(images, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT), (0, 0)), mode="reflect")
    moved = np.empty_like(images)
    for index, (top, left, flip) in enumerate(rng.integers(0, (2 * SHIFT + 1, 2 * SHIFT + 1, 2), (len(images), 3))):
        crop = room[index, top : top + height, left : left + width]
        moved[index] = crop[:, ::-1] if flip else crop
    return moved


def turn_and_tint(images: Array, rng: np.random.Generator) -> Array:
    """Each square image in one of its eight positions, every channel with another gain and offset."""
    turned = np.empty_like(images)
    for index, (quarters, flip) in enumerate(rng.integers(0, (4, 2), (len(images), 2))):
        position = np.rot90(images[index], quarters)
        turned[index] = position[:, ::-1] if flip else position
    gain = rng.uniform(1 - GAIN, 1 + GAIN, (len(images), 1, 1, 3)).astype(np.float32)
    offset = rng.uniform(-OFFSET, OFFSET, (len(images), 1, 1, 3)).astype(np.float32)
    tinted: Array = np.clip(turned * gain + offset, 0, 255).astype(np.uint8)
    return tinted
