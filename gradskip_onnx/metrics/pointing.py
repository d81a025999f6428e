"""Pointing game as in TIS: is the strongest pixel on the object, and how much of the map is?

There is no tolerance around the object. Images whose object fills half of the frame or more are excluded, because a hit
is likely by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradskip_onnx.methods.options import option
from gradskip_onnx.types import Array

from .sample import Box, Saliency, Sample, Score
from .table import ImageMetric, Measured, metric


@dataclass(frozen=True, slots=True)
class Options:
    """Which images count."""

    largest: float = option(0.5, "share of the frame from which on an object is too large", low=0.0, high=1.0)


def box_mask(boxes: Sequence[Box], size: tuple[int, int]) -> Array:
    """The union of the boxes, (H, W); corners are rounded towards 0 and clipped to the frame."""
    mask = np.zeros(size, bool)
    for left, top, right, bottom in boxes:
        mask[max(int(top), 0) : max(int(bottom), 0), max(int(left), 0) : max(int(right), 0)] = True
    return mask


def _object(sample: Sample) -> Array:
    """Whether each pixel is on the object, (H, W); from boxes, else from the mask, else False everywhere."""
    if sample.boxes is None and sample.mask is not None:
        return np.equal(sample.mask, 1)
    return box_mask(sample.boxes or (), sample.size)


def point(sample: Sample, saliency: Saliency, score: Score, options: Options) -> Measured:
    """`hit`: 1 if the first maximum is on the object, else 0; `energy`: share of the map's absolute sum there."""
    del score
    truth = _object(sample)
    share = float(truth.mean())
    if share == 0:
        return Measured(excluded="no part of the object is in the frame")
    if share >= options.largest:
        return Measured(excluded=f"the object fills {share:.0%} of the frame")
    strength = np.abs(saliency.map.astype(np.float64))
    total = float(strength.sum())
    hit = float(truth.reshape(-1)[saliency.map.argmax()])
    return Measured({"hit": hit, "energy": float(strength[truth].sum()) / total if total else 0.0, "share": share})


def _passes(options: Any) -> int:
    del options
    return 0


def _row(name: str, summary: str, term: str) -> ImageMetric:
    needs = ("boxes", "mask")
    return metric(
        ImageMetric(
            name, summary, Options, better="higher", span=(0.0, 1.0), terms=(term,), measure=point, passes=_passes,
            needs=needs,
        )
    )  # fmt: skip


_row("pointing-game", "share of images whose strongest pixel lies on the object", "hit")
_row("pointing-energy", "share of the map's absolute sum that lies on the object", "energy")
