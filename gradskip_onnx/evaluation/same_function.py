"""Two files of one function: their scores must agree, then their maps are compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradskip_onnx.api import Explainer
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.methods import MethodChoice
from gradskip_onnx.metrics.table import Measured
from gradskip_onnx.types import Array

from .explain import maps_of
from .forward import Forward

SAME = 1e-3  # of the largest score: float32 rounding through all blocks is far below, a wrong change far above


Asked = tuple[Explainer, Array]  # a model, and the images (n, channels, H, W) as it takes them


def map_changes(
    first: Asked, second: Asked, method: MethodChoice, targets: Sequence[int], score: str, changed: str
) -> list[Measured]:
    """`difference` of the maps of each image by two files; `changed` says what was done to the second."""
    scores, others = (Forward(explainer).logits(images) for explainer, images in (first, second))
    require_same(scores, others, changed)
    maps = (maps_of(explainer, method, images, targets, score) for explainer, images in (first, second))
    return [Measured({"difference": largest_difference(*pair)}) for pair in zip(*maps, strict=True)]


def require_same(scores: Array, others: Array, changed: str) -> None:
    """Raise UnsupportedModelError if the scores of two files differ; `changed` says what was done to the second."""
    difference, largest = float(np.abs(scores - others).max()), float(np.abs(scores).max())
    if difference > SAME * largest:
        raise UnsupportedModelError(
            "other-function", f"{changed}, scores up to {largest:.3g} differ by {difference:.3g}"
        )


def largest_difference(one: Array, other: Array) -> float:
    """The largest difference of two maps, each divided by its largest absolute value: 0 to 2."""
    a, b = (values.astype(np.float64) / (np.abs(values).max() or 1.0) for values in (one, other))
    return float(np.abs(a - b).max())
