"""The plain model: logits of preprocessed images, and the probability of a class that metrics ask for."""

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
    """A model asked for its logits and nothing else."""

    explainer: Explainer

    def logits(self, images: Array) -> Array:
        """(B, classes) or (B, classes, h, w)."""
        traces = self.explainer.model.run(images, [None] * len(images), None, PassRequest(Needs()))
        return np.stack([trace.logits for trace in traces])

    def score(self, clean: Array, target: int) -> Remembering:
        """Probability of a class; for segmentation its mean over the pixels that `clean` logits give to the class."""
        task = task_of(self.explainer.architecture)
        weights = task.explained(clean, target, None)

        def probability(images: Array) -> Array:
            return task.probability(self.logits(images), target, weights)

        return Remembering(probability, {whole: float(task.probability(clean[None], target, weights)[0])})
