"""Turns the region of a segmentation, a mask or a point of the image, into weights on the grid of the scores."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image

from gradskip_onnx.errors import InputError
from gradskip_onnx.types import Array, Size

from .preprocess import Geometry

Point = tuple[float, float]  # x, y in pixels of the image
Region = Array | Point
ROUNDING = 1e-6  # of the edges of a box, in pixels


def weigh(region: Region, geometry: Geometry, size: Size) -> Array:
    """Weights of `size` (rows, columns) for a region given in pixels of the original image."""
    weights = _mask(region, geometry, size) if isinstance(region, np.ndarray) else _point(region, geometry, size)
    if not weights.any():
        raise InputError("the region mask is empty where the model sees the image")
    return weights


def _mask(region: Array, geometry: Geometry, size: Size) -> Array:
    """The share of each cell that the mask (H, W) covers."""
    if region.shape != geometry.image_size:
        raise InputError(f"the region mask is {region.shape}, the image is {geometry.image_size} (rows, columns)")
    (height, width), (x0, y0, x1, y1) = geometry.image_size, geometry.box
    top, left = _beyond(-y0), _beyond(-x0)
    beside = ((top, _beyond(y1 - height)), (left, _beyond(x1 - width)))
    mask = Image.fromarray(np.pad((region != 0).astype(np.float32), beside))
    visible = max(x0 + left, 0.0), max(y0 + top, 0.0), min(x1 + left, mask.width), min(y1 + top, mask.height)
    # Pillow's BOX averages over cells whose borders may lie inside pixels
    return np.asarray(mask.resize(size[::-1], Image.Resampling.BOX, box=visible), np.float32)


def _beyond(distance: float) -> int:
    """Whole pixels by which the input of a padded image reaches beyond an edge of it."""
    return max(0, math.ceil(distance - ROUNDING))


def _point(region: Point, geometry: Geometry, size: Size) -> Array:
    """1 in the cell that contains the point, 0 elsewhere."""
    (x, y), (x0, y0, x1, y1) = region, geometry.box
    if not (x0 <= x < x1 and y0 <= y < y1):
        raise InputError(f"point {x:g},{y:g} is outside what the model sees: x {x0:g} to {x1:g}, y {y0:g} to {y1:g}")
    weights = np.zeros(size, np.float32)
    weights[int((y - y0) / (y1 - y0) * size[0]), int((x - x0) / (x1 - x0) * size[1])] = 1.0
    return weights
