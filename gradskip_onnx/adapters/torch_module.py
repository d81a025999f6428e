"""The model of an explainer as a torch module: logits of a batch, computed by ONNX Runtime, without gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradskip_onnx.api import Explainer
from gradskip_onnx.evaluation.forward import Forward
from gradskip_onnx.types import Array


def torch_module(explainer: Explainer) -> Any:
    """A `torch.nn.Module` from images (B, channels, H, W), preprocessed, to logits (B, classes).

    For packages that ask a model only for its outputs. It has no parameters, and nothing can be differentiated through
    it: attributions come from the explainer, which the module keeps as `explainer`.
    """
    import torch

    forward = Forward(explainer)

    class OnnxModule(torch.nn.Module):
        """Runs the ONNX file."""

        def __init__(self) -> None:
            super().__init__()
            self.explainer = explainer

        def forward(self, images: torch.Tensor) -> Any:
            return like(images, forward.logits(as_array(images)))

    return OnnxModule().eval()


def as_array(images: Any) -> Array:
    """A tensor on any device, or an array, as float32."""
    values = images.detach().cpu() if hasattr(images, "detach") else images
    return np.asarray(values, np.float32)


def like(images: Any, values: Array) -> Any:
    """Values as a tensor of the type and on the device of `images`, or as the array they are if those are no tensor."""
    return images.new_tensor(np.ascontiguousarray(values)) if hasattr(images, "new_tensor") else values
