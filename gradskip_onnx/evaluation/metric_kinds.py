"""The two kinds of metric that are not measured per image: on a group of images, and on a method."""

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
    """A metric measured on several images together; its option `images` says on how many.

    `measure(explainer, method, images, targets, score, options)` takes images (B, channels, H, W) and B classes, and
    returns one `Measured` per image.
    """

    measure: Callable[[Explainer, MethodChoice, Array, Sequence[int], str, Any], list[Measured]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodMetric(Row):
    """A metric of a method on a model, without images: `measure(explainer, methods, score)` has numbers per method."""

    measure: Callable[[Explainer, Sequence[MethodChoice], str], list[Mapping[str, float]]]
