"""The metric `half-area`: how small a part of the image holds half of the positive relevance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradskip_onnx.plugins import ImageMetric, Measured, Saliency, Sample, Score, option


@dataclass(frozen=True, slots=True)
class HalfAreaOptions:
    share: float = option(0.5, "share of the positive relevance", low=0.0, high=1.0)


def half_area(_sample: Sample, saliency: Saliency, _score: Score, options: HalfAreaOptions) -> Measured:
    """The share of the pixels, strongest first, that together hold the share of the sum."""
    values = np.sort(np.maximum(saliency.map, 0), axis=None)[::-1].cumsum()
    if values[-1] == 0:
        return Measured(excluded="the map has no positive value")
    return Measured({"area": float((np.searchsorted(values, options.share * values[-1]) + 1) / values.size)})


HALF_AREA = ImageMetric(
    name="half-area",
    summary="share of the pixels that hold half of the positive relevance",
    better="lower",
    span=(0.0, 1.0),
    options=HalfAreaOptions,
    measure=half_area,
    passes=lambda _: 0,  # forward passes per image
    terms=("area",),
)
