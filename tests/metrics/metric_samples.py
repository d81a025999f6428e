"""Tiny samples and planted models for the tests of the metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradskip_onnx.metrics import Saliency, Sample, Score
from gradskip_onnx.types import Array


def sample(image: Any, **fields: Any) -> Sample:
    """A sample of an image written as rows of numbers, one channel."""
    values = np.asarray(image, np.float32)
    return Sample("tiny", values[None] if values.ndim == 2 else values, 0, **fields)


def saliency(values: Any, scores: Any = None) -> Saliency:
    """A map; the raw scores are the map itself unless given."""
    found = np.asarray(values, np.float64)
    return Saliency(found, found if scores is None else np.asarray(scores, np.float64))


def weighted(weights: Any) -> Score:
    """A model whose probability is a weighted sum of the pixels of the first channel."""
    plan = np.asarray(weights, np.float64)
    return lambda images: (images[:, 0] * plan).sum(axis=(1, 2))


def never(images: Array) -> Array:
    """A model that must not be asked."""
    raise AssertionError(f"asked for {len(images)} images")


class Counting:
    """A model that keeps the sizes of the batches it was asked for."""

    def __init__(self, score: Score) -> None:
        self.score = score
        self.batches: list[int] = []

    def __call__(self, images: Array) -> Array:
        self.batches.append(len(images))
        return self.score(images)


def grid(rows: Sequence[str]) -> Array:
    """Rows of digits as numbers; a dot is -1."""
    return np.array([[-1 if letter == "." else int(letter) for letter in row] for row in rows])
