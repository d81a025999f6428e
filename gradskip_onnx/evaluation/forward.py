"""The plain model: logits of preprocessed images, and the probability of a class that metrics ask for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradskip_onnx.api import Explainer
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.metrics import Remembering
from gradskip_onnx.metrics.substrates import whole
from gradskip_onnx.passes.run_plan import run_plan
from gradskip_onnx.runtime.session import Session
from gradskip_onnx.types import Architecture, Array, Needs, Plan


@dataclass(frozen=True, slots=True, eq=False)
class Forward:
    """A session that shows the logits and nothing else."""

    session: Session
    plan: Plan
    architecture: Architecture
    batch: int | None  # the batch a file is bound to
    dtype: np.dtype[np.generic]

    @classmethod
    def of(cls, explainer: Explainer) -> Forward:
        plan, session = explainer.model.open(PassRequest(Needs()))
        image = explainer.model.image
        return cls(session, plan, explainer.architecture, image.dims[0], image.dtype)

    def logits(self, images: Array) -> Array:
        """(B, classes) or (B, classes, h, w); a file bound to a batch size is filled up with copies."""
        step = self.batch or len(images)
        found = []
        for start in range(0, len(images), step):
            part = images[start : start + step]
            full = np.concatenate([part, np.repeat(part[-1:], step - len(part), axis=0)])
            traces = run_plan(self.session, self.plan, self.architecture, full.astype(self.dtype))
            found += [trace.logits for trace in traces[: len(part)]]
        return np.stack(found)

    def score(self, clean: Array, target: int) -> Remembering:
        """Probability of a class; for segmentation its mean over the pixels that `clean` logits give to the class."""
        weights = _pixels(clean, target)

        def probability(images: Array) -> Array:
            return of_logits(self.logits(images).astype(np.float64))

        def of_logits(logits: Array) -> Array:
            powers = np.exp(logits - logits.max(axis=1, keepdims=True))
            of_class = powers[:, target] / powers.sum(axis=1)
            return np.asarray(of_class if weights is None else (of_class * weights).sum(axis=(1, 2)) / weights.sum())

        return Remembering(probability, {whole: float(of_logits(clean[None].astype(np.float64))[0])})


def _pixels(logits: Array, target: int) -> Array | None:
    if logits.ndim == 1:
        return None
    chosen = logits.argmax(axis=0) == target
    return np.asarray(chosen if chosen.any() else np.ones_like(chosen), np.float64)
