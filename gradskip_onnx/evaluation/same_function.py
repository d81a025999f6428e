"""Two files of one function: their scores must agree before their maps are compared."""

from __future__ import annotations

import numpy as np

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.types import Array

SAME = 1e-3  # of the largest score: float32 rounding through all blocks is far below, a wrong change far above


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
