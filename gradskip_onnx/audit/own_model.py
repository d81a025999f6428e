"""The model file run as it is: what it answers without anything of ours in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gradskip_onnx.errors import ModelError
from gradskip_onnx.graph.layouts import as_fed
from gradskip_onnx.passes.run_plan import whole_batches
from gradskip_onnx.runtime.session import Session
from gradskip_onnx.types import Array

if TYPE_CHECKING:
    from gradskip_onnx.api import Explainer


@dataclass(frozen=True, slots=True, eq=False)
class OwnModel:
    """A session of the file from which an explainer was made; no node was added, removed or rewritten by us."""

    explainer: Explainer
    session: Session

    @classmethod
    def open(cls, explainer: Explainer) -> OwnModel:
        architecture, session = explainer.architecture, explainer.model.open_file()
        wanted = sorted(session.inputs - {architecture.input})
        if wanted:
            raise ModelError(f"{explainer.name} also needs {', '.join(wanted)}; an audit feeds images alone")
        if architecture.logits not in session.outputs:
            raise ModelError(f"{explainer.name} has no output {architecture.logits!r} when it is run as it is")
        return cls(explainer, session)

    def logits(self, images: Array) -> Array:
        """Scores of images (B, channels, H, W): (B, classes), for segmentation (B, classes, h, w), float32."""
        architecture, image = self.explainer.architecture, self.explainer.model.image
        found = []
        for batch, _, _ in whole_batches(images.astype(image.dtype), [None] * len(images), None, image.dims[0]):
            feeds = {architecture.input: as_fed(batch, architecture.input_layout)}
            found.append(self.session.run([architecture.logits], feeds)[architecture.logits])
        scores = np.concatenate(found)[: len(images)].astype(np.float32)
        if not np.isfinite(scores).all():
            raise ModelError("the model's scores for an image are not finite numbers")
        return scores
