"""The relevance of a model given as bytes, and when two of them are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

import gradskip_onnx
from gradskip_onnx.types import Array

ROUNDING = 1e-4


def explain(model: onnx.ModelProto, **options: Any) -> Array:
    """The relevance of class 1 for a fixed image, by the method of the paper."""
    explainer = gradskip_onnx.load(model.SerializeToString(), cache=False, **options)
    images = np.random.default_rng(4).standard_normal((1, *explainer.architecture.input_dims)).astype(np.float32)
    (result,) = explainer.explain(images, 1, method="gradskip")
    scores: Array = result.relevance.scores
    return scores


def assert_same(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=ROUNDING, atol=ROUNDING * float(expected.max()))
