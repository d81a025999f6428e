"""For Quantus: a model its metrics accept, and an `explain_func` in its call convention."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradskip_onnx.api import Explainer
from gradskip_onnx.errors import InputError
from gradskip_onnx.methods import DEFAULT
from gradskip_onnx.types import Array

from .torch_module import as_array, torch_module


def quantus_model(explainer: Explainer) -> Any:
    """The model to give to a metric of Quantus, which takes torch modules: outputs only, no parameters."""
    return torch_module(explainer)


def explain(
    model: Any, inputs: Any, targets: Any, *, method: str = DEFAULT, device: str | None = None, **options: Any
) -> Array:
    """Maps (B, 1, H, W) of preprocessed images (B, channels, H, W) for their targets (B,): the `explain_func`.

    `model` is what `quantus_model` gave. `method` and its options come from Quantus' `explain_func_kwargs`; `device` is
    added by Quantus and unused: where the model runs was said when it was opened.
    """
    del device
    explainer = getattr(model, "explainer", None)
    if not isinstance(explainer, Explainer):
        raise InputError(f"{type(model).__name__} was not made by quantus_model(explainer); give that to the metric")
    classes = [int(target) for target in np.asarray(targets).reshape(-1)]
    found = explainer.explain(as_array(inputs), classes, method=method, **options)
    return np.stack([one.map for one in found])[:, None]
