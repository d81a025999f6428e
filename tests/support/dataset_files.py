"""Writes the files of data sets: pictures, annotations as ILSVRC writes them, arrays as MedMNIST does."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gradskip_onnx.datasets import Dataset

FISH, SHARK, BIRD = "n01440764", "n01484850", "n01530575"


def picture(path: Path, size: tuple[int, int] = (20, 30), level: int = 90) -> Path:
    """A grey image of (height, width)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((*size, 3), level, np.uint8)).save(path)
    return path


def voc(*objects: tuple[str, tuple[int, int, int, int]], size: tuple[int, int] = (20, 30)) -> str:
    """An annotation as ILSVRC writes it."""
    listing = "".join(
        f"<object><name>{name}</name><bndbox><xmin>{box[0]}</xmin><ymin>{box[1]}</ymin><xmax>{box[2]}</xmax>"
        f"<ymax>{box[3]}</ymax></bndbox></object>"
        for name, box in objects
    )
    return (
        f"<annotation><size><width>{size[1]}</width><height>{size[0]}</height><depth>3</depth></size>"
        f"{listing}</annotation>"
    )


def labels(dataset: Dataset) -> dict[str, int | str | None]:
    return {entry.id: entry.label for entry in dataset.entries}


def medmnist(path: Path, **arrays: Any) -> Path:
    rng = np.random.default_rng(0)
    content: dict[str, Any] = {
        "test_images": rng.integers(0, 256, (3, 28, 28, 3), dtype=np.uint8),
        "test_labels": np.array([[2], [0], [1]], np.uint8),
        "val_images": rng.integers(0, 256, (2, 28, 28), dtype=np.uint8),
        "val_labels": np.array([[1], [0]], np.uint8),
    } | arrays
    np.savez_compressed(path, **content)
    return path
