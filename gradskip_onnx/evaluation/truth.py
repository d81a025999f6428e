"""Maps ground truth, boxes and masks, from the original image to the pixels of the model input."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gradskip_onnx.datasets import Dataset, Entry
from gradskip_onnx.datasets.entry import UNLABELLED
from gradskip_onnx.errors import InputError
from gradskip_onnx.images.interpolate import nearest
from gradskip_onnx.images.preprocess import Geometry
from gradskip_onnx.metrics import IGNORED, Box, ImageMetric
from gradskip_onnx.metrics.table import Row
from gradskip_onnx.types import Array, Size

OTHER = -2  # a pixel outside the outline: not the class of the label, and no other known class
AREA = 0.005  # smallest share of the input that a class must cover to be explained


# Fields of Sample in words, and the layouts that have them.
TRUTHS: Mapping[str, tuple[str, str]] = {
    "mask": ("a mask of the object's pixels", "ade20k, planted"),
    "boxes": ("boxes around the object", "imagenet"),
}


def lacking(row: Row, dataset: Dataset, labels: Mapping[str, int]) -> str:
    """What a metric needs and no image of the dataset has, and where it is found; empty if nothing is missing."""
    needs = row.needs if isinstance(row, ImageMetric) else ()
    if not needs or any(_has(entry, need, labels) for entry in dataset.entries for need in needs):
        return ""
    if "mask" in needs and any(entry.outline is not None for entry in dataset.entries):
        return f"it needs {TRUTHS['mask'][0]}, and the model knows no class of {dataset.where} by name; give --labels"
    words = [TRUTHS.get(need, (need, "")) for need in needs]
    wanted, layouts = " or ".join(text for text, _ in words), ", ".join(filter(None, (where for _, where in words)))
    known = f" (layouts with it: {layouts})" if layouts else ""
    return f"it needs {wanted}, and {dataset.where} (layout {dataset.layout}) has none{known}"


def _has(entry: Entry, need: str, labels: Mapping[str, int]) -> bool:
    """Whether an entry can give a field of Sample; an outline is that of the label."""
    if need == "mask":
        return entry.areas is not None or (entry.outline is not None and entry.id in labels)
    return getattr(entry, need, None) is not None


def seen_box(box: Box, geometry: Geometry, size: Size) -> Box:
    """A box of the original image in pixels of the model input; it may extend beyond the input."""
    (x0, y0, x1, y1), (height, width) = geometry.box, size
    across, down = width / (x1 - x0), height / (y1 - y0)
    left, top, right, bottom = box
    return (left - x0) * across, (top - y0) * down, (right - x0) * across, (bottom - y0) * down


def seen_pixels(values: Array, geometry: Geometry, size: Size, outside: int) -> Array:
    """Values of the original image at the pixels of the input, by nearest neighbour; `outside` beyond the image."""
    if values.shape != geometry.image_size:
        raise InputError(f"the mask is {values.shape}, its image {geometry.image_size} (rows, columns)")
    (x0, y0, x1, y1), (height, width) = geometry.box, size
    rows, columns = nearest(height, y0, y1), nearest(width, x0, x1)
    inside = np.outer(_within(rows, values.shape[0]), _within(columns, values.shape[1]))
    picked = values[np.clip(rows, 0, values.shape[0] - 1)][:, np.clip(columns, 0, values.shape[1] - 1)]
    return np.where(inside, picked, outside)


def _within(places: Array, length: int) -> Array:
    return (places >= 0) & (places < length)


def areas_of(entry: Entry, label: int | None, geometry: Geometry, size: Size) -> Array | None:
    """(H, W) class of each input pixel, or OTHER or UNLABELLED; None for an entry without areas and outline."""
    if entry.areas is not None:
        return seen_pixels(entry.areas(), geometry, size, UNLABELLED)
    if entry.outline is None or label is None:
        return None
    return seen_pixels(np.where(entry.outline(), label, OTHER), geometry, size, UNLABELLED)


def mask_of(areas: Array | None, target: int) -> Array | None:
    """(H, W) mask: 1 for the class, 0 for anything else, IGNORED where unlabelled."""
    if areas is None:
        return None
    return np.where(areas == UNLABELLED, IGNORED, areas == target).astype(np.int8)


def boxes_of(entry: Entry, label: int | None, target: int, geometry: Geometry, size: Size) -> tuple[Box, ...] | None:
    """The boxes of the class `target`: those of the entry if it is the label, else none; None without annotation."""
    if entry.boxes is None:
        return None
    return tuple(seen_box(box, geometry, size) for box in entry.boxes(geometry.image_size)) if target == label else ()


def shown_classes(areas: Array | None, logits: Array) -> list[int]:
    """Classes that cover at least AREA, both in the ground truth and in the prediction (classes, h, w)."""
    if areas is None:
        return []
    predicted = np.bincount(logits.argmax(axis=0).reshape(-1), minlength=len(logits)) / logits[0].size
    present = [int(value) for value in np.unique(areas) if 0 <= value < len(logits)]
    return [value for value in present if (areas == value).mean() >= AREA and predicted[value] >= AREA]
