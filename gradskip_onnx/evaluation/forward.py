"""Runs the model alone: logits of preprocessed images, and the class probability that metrics call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradskip_onnx.api import Explainer
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.metrics import Remembering
from gradskip_onnx.metrics.substrates import whole
from gradskip_onnx.tasks import task_of
from gradskip_onnx.types import Array, Needs


@dataclass(frozen=True, slots=True, eq=False)
class Forward:
    """The forward pass of a model, without gradients."""

    explainer: Explainer

    def logits(self, images: Array) -> Array:
        """Logits of images (B, channels, H, W): (B, classes), for segmentation (B, classes, h, w)."""
        traces = self.explainer.model.run(images, [None] * len(images), None, PassRequest(Needs()))
        return np.stack([trace.logits for trace in traces])

    def score(self, clean: Array, target: int) -> Remembering:
        """A function from images to the probability of a class.

        In segmentation: its mean over the pixels to which `clean`, the logits of the intact image, assign the class.
        """
        task = task_of(self.explainer.architecture)
        weights = task.explained(clean, target, None)

        def probability(images: Array) -> Array:
            return task.probability(self.logits(images), target, weights)

        return Remembering(probability, {whole: float(task.probability(clean[None], target, weights)[0])})
