"""The spelling check: a map must not depend on which operators write the model down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradskip_onnx.api import Explainer
from gradskip_onnx.methods import MethodChoice
from gradskip_onnx.methods.options import option
from gradskip_onnx.metrics.table import Measured
from gradskip_onnx.types import Array

from .metric_kinds import GroupMetric
from .respelled import respelled
from .same_function import map_changes


@dataclass(frozen=True, slots=True)
class Options:
    """How many images are explained."""

    images: int = option(32, "images of the dataset that are explained by both graphs", low=1, high=100_000)


def spelling(
    explainer: Explainer, method: MethodChoice, images: Array, targets: Sequence[int], score: str, options: Options
) -> list[Measured]:
    """`difference`: the largest difference of the two maps, each divided by its largest absolute value."""
    del options
    other = respelled(explainer)
    return map_changes((explainer, images), (other, images), method, targets, score, "in other operators")


SPELLING = GroupMetric(
    name="spelling",
    summary="largest change of the map when the same model is written in other operators",
    options=Options,
    better="lower",
    span=(0.0, 2.0),
    terms=("difference",),
    measure=spelling,
)
