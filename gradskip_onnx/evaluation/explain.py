"""Explains a group of images by one method, in one pass if possible; an image that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradskip_onnx.api import Explainer
from gradskip_onnx.errors import GradskipError
from gradskip_onnx.explanation import Explanation
from gradskip_onnx.methods import MethodChoice
from gradskip_onnx.pipeline.batch import run_batch
from gradskip_onnx.types import Array


def explain_group(
    explainer: Explainer, method: MethodChoice, images: Array, targets: Sequence[int], score: str
) -> list[Explanation | GradskipError]:
    """An explanation or an error for each image of the batch (B, channels, H, W)."""

    def run(batch: Sequence[tuple[Array, int]]) -> list[Explanation]:
        values, classes = np.stack([image for image, _ in batch]), [target for _, target in batch]
        found: list[Explanation] = explainer.explain(
            values, classes, method=method.row.name, score=score, **method.settings
        )
        return found

    return run_batch(run, list(zip(images, targets, strict=True)), GradskipError)


def maps_of(
    explainer: Explainer, method: MethodChoice, images: Array, targets: Sequence[int], score: str
) -> list[Array]:
    """The map (H, W) of each image; raises the error of the first image that fails."""
    maps = []
    for found in explain_group(explainer, method, images, targets, score):
        if isinstance(found, GradskipError):
            raise found
        maps.append(found.map)
    return maps
