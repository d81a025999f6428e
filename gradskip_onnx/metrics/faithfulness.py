"""Faithfulness Violation Test (Liu et al., ICML 2022): does the strongest patch act as its sign says?

w is the weight of the patch with the largest |w|, D = p(x) - p(x without it); w D < 0 is a violation. A whole patch is
removed, because a single pixel has no measurable effect. The test reads raw scores, since a map scaled to [0, 1] has
lost its signs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradskip_onnx.images import interpolate
from gradskip_onnx.methods.options import option
from gradskip_onnx.types import Array

from .patches import patch_means
from .sample import Saliency, Sample, Score, ask_with_ends
from .substrates import SUBSTRATES, Blurred, Substrate, whole
from .table import ImageMetric, Measured, metric

FILLS: dict[str, Substrate] = SUBSTRATES | {"blur": Blurred()}


@dataclass(frozen=True, slots=True)
class Options:
    """What is removed, and what replaces it."""

    substrate: str = option("mean", "what the removed patch becomes", choices=tuple(FILLS))
    patch: int = option(0, "side of the patch in pixels; 0: the token of the model", low=0, high=4096)


def patch_weights(saliency: Saliency, size: tuple[int, int], side: int) -> Array:
    """Mean of the raw scores over each patch, (rows, columns); patches at the right and lower edge may be smaller."""
    return patch_means(interpolate.resize(saliency.scores, size, "nearest"), side)


def violation(sample: Sample, saliency: Saliency, score: Score, options: Options) -> Measured:
    """`violation` is 1 if removing the strongest patch changes the probability against its sign, else 0."""
    side = options.patch or sample.patch
    weights = patch_weights(saliency, sample.size, side)
    row, column = np.unravel_index(np.abs(weights).argmax(), weights.shape)
    where = slice(row * side, (row + 1) * side), slice(column * side, (column + 1) * side)
    changed = sample.image.copy()
    changed[:, *where] = FILLS[options.substrate](sample)[:, *where]
    ends, (without,) = ask_with_ends(score, {whole: whole(sample)}, [changed])
    weight, drop = float(weights[row, column]), float(ends[whole] - without)
    numbers = {"violation": float(np.sign(weight) * np.sign(drop) < 0), "weight": weight, "drop": drop}
    return Measured(numbers)


def _passes(options: Any) -> int:
    del options
    return 2


metric(
    ImageMetric(
        name="faithfulness-violation",
        summary="share of images whose strongest patch acts against its sign when it is removed",
        better="lower",
        span=(0.0, 1.0),
        options=Options,
        measure=violation,
        passes=_passes,
        terms=("violation",),
    )
)
