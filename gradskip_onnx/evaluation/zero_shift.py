"""The zero shift check: a map must not depend on which colour the preprocessing turns into zero.

The mean and the deviation of the preprocessing are moved into the patch embedding. The model is the same function of
the photograph; a map that changes tells about the numbers that were fed, not about what was seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradskip_onnx.api import Explainer
from gradskip_onnx.errors import InputError
from gradskip_onnx.methods import MethodChoice
from gradskip_onnx.methods.options import option
from gradskip_onnx.metrics.table import Measured
from gradskip_onnx.types import Array

from .metric_kinds import GroupMetric
from .moved_zero import moved_images, with_moved_zero
from .same_function import map_changes


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
    return map_changes((explainer, images), (moved, fed), method, targets, score, "with its zero moved")


ZERO_SHIFT = GroupMetric(
    name="zero-shift",
    summary="largest change of the map when the preprocessing's mean and deviation move into the model",
    options=Options,
    better="lower",
    span=(0.0, 2.0),
    terms=("difference",),
    measure=zero_shift,
)
