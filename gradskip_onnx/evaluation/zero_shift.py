"""The zero shift check: a map must not depend on which colour the preprocessing turns into zero.

The mean and the deviation of the preprocessing are moved into the patch embedding. The model is the same function of
the photograph; a map that changes tells about the numbers that were fed, not about what was seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradskip_onnx.api import Explainer
from gradskip_onnx.errors import InputError, UnsupportedModelError
from gradskip_onnx.methods import MethodChoice
from gradskip_onnx.methods.options import option
from gradskip_onnx.metrics.table import Measured
from gradskip_onnx.types import Array

from .explain import maps_of
from .forward import Forward
from .metric_kinds import GroupMetric
from .moved_zero import moved_images, with_moved_zero

SAME = 1e-3  # of the largest score: float32 rounding through all blocks is far below, a wrong fold far above


@dataclass(frozen=True, slots=True)
class Options:
    """The other preprocessing, and how many images are explained."""

    images: int = option(32, "images of the dataset that are explained by both files", low=1, high=100_000)
    mean: float = option(1.0, "level of a pixel, 0 to 1, that becomes zero; white in no usual file", low=0.0, high=1.0)
    std: float = option(0.5, "what levels are divided by", low=1e-3, high=1e3)


def zero_shift(
    explainer: Explainer, method: MethodChoice, images: Array, targets: Sequence[int], score: str, options: Options
) -> list[Measured]:
    """`difference`: the largest difference of the two maps, each divided by its largest absolute value."""
    old = explainer.preprocess
    new = replace(old, mean=(options.mean,) * 3, std=(options.std,) * 3)
    if (new.mean, new.std) == (old.mean, old.std):
        raise InputError(
            f"zero-shift: mean {options.mean:g} and deviation {options.std:g} are the model's own; give others"
        )
    moved, fed = with_moved_zero(explainer, new), moved_images(images, old, new)
    _require_same(Forward(explainer).logits(images), Forward(moved).logits(fed))
    pairs = zip(
        maps_of(explainer, method, images, targets, score), maps_of(moved, method, fed, targets, score), strict=True
    )
    return [Measured({"difference": largest_difference(one, other)}) for one, other in pairs]


def largest_difference(one: Array, other: Array) -> float:
    """The largest difference of two maps, each divided by its largest absolute value: 0 to 2."""
    a, b = (values.astype(np.float64) / (np.abs(values).max() or 1.0) for values in (one, other))
    return float(np.abs(a - b).max())


def _require_same(scores: Array, moved: Array) -> None:
    difference, largest = float(np.abs(scores - moved).max()), float(np.abs(scores).max())
    if difference > SAME * largest:
        raise UnsupportedModelError(
            "no-fold", f"with its zero moved, scores up to {largest:.3g} differ by {difference:.3g}"
        )


ZERO_SHIFT = GroupMetric(
    name="zero-shift",
    summary="largest change of the map when the preprocessing's mean and deviation move into the model",
    options=Options,
    better="lower",
    span=(0.0, 2.0),
    terms=("difference",),
    measure=zero_shift,
)
