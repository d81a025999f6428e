"""Ground truth in the frame of the model: boxes and masks go through the geometry of their image."""

from __future__ import annotations

import numpy as np

from gradskip_onnx.datasets import Entry
from gradskip_onnx.datasets.entry import UNLABELLED
from gradskip_onnx.errors import InputError
from gradskip_onnx.images.interpolate import nearest
from gradskip_onnx.images.preprocess import Geometry
from gradskip_onnx.metrics import IGNORED, Box
from gradskip_onnx.types import Array, Size

OTHER = -2  # a pixel that shows something, but no class the model could be asked about
AREA = 0.005  # share of the frame from which on a class is worth a map


def seen_box(box: Box, geometry: Geometry, size: Size) -> Box:
    """A box of the original image in pixels of the input, not clipped."""
    (x0, y0, x1, y1), (height, width) = geometry.box, size
    across, down = width / (x1 - x0), height / (y1 - y0)
    left, top, right, bottom = box
    return (left - x0) * across, (top - y0) * down, (right - x0) * across, (bottom - y0) * down


def seen_pixels(values: Array, geometry: Geometry, size: Size, outside: int) -> Array:
    """A map of the original image at the size of the input: the pixel under the centre of each new one."""
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
    """(H, W) class of each pixel of the input: OTHER and UNLABELLED are none; None where nothing is known."""
    if entry.areas is not None:
        return seen_pixels(entry.areas(), geometry, size, UNLABELLED)
    if entry.outline is None or label is None:
        return None
    return seen_pixels(np.where(entry.outline(), label, OTHER), geometry, size, UNLABELLED)


def mask_of(areas: Array | None, target: int) -> Array | None:
    """1 the class, 0 anything else, IGNORED unlabelled."""
    if areas is None:
        return None
    return np.where(areas == UNLABELLED, IGNORED, areas == target).astype(np.int8)


def boxes_of(entry: Entry, label: int | None, target: int, geometry: Geometry, size: Size) -> tuple[Box, ...] | None:
    """Boxes of the class explained: those of the label, or none at all if another class is explained."""
    if entry.boxes is None:
        return None
    return tuple(seen_box(box, geometry, size) for box in entry.boxes(geometry.image_size)) if target == label else ()


def shown_classes(areas: Array | None, logits: Array) -> list[int]:
    """Classes that cover enough of the frame, both in truth and in the prediction (classes, h, w)."""
    if areas is None:
        return []
    predicted = np.bincount(logits.argmax(axis=0).reshape(-1), minlength=len(logits)) / logits[0].size
    present = [int(value) for value in np.unique(areas) if 0 <= value < len(logits)]
    return [value for value in present if (areas == value).mean() >= AREA and predicted[value] >= AREA]
