"""The two kinds of metric that are not measured image by image: over several images together, and of a method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradskip_onnx.api import Explainer
from gradskip_onnx.methods import MethodChoice
from gradskip_onnx.metrics import Measured, Metric
from gradskip_onnx.metrics.table import Row
from gradskip_onnx.types import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetric(Metric):
    """Measured on some images together; its options say on how many, as `images`.

    `measure(explainer, method, images, targets, score, options)` takes (B, channels, H, W) and a class for each.
    """

    measure: Callable[[Explainer, MethodChoice, Array, Sequence[int], str, Any], list[Measured]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodMetric(Row):
    """A property of a method on a model, whatever the images: `measure(explainer, methods, score)`, numbers of each."""

    measure: Callable[[Explainer, Sequence[MethodChoice], str], list[Mapping[str, float]]]
