"""Files that others wrote, where the assets are at hand: explained, with the scores of the original file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import gradskip_onnx

ASSETS = os.environ.get("GRADSKIP_ASSETS")
FILES = sorted((Path(ASSETS) / "onnx").glob("*.onnx")) if ASSETS else []


@pytest.mark.skipif(not FILES, reason="GRADSKIP_ASSETS is not set")
@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_foreign_files_are_explained(path: Path):
    explainer = gradskip_onnx.load(path)
    images = np.asarray(np.random.default_rng(0).standard_normal((1, *explainer.architecture.input_dims)), np.float32)
    (result,) = explainer.explain(images)
    (printed,) = explainer.explain(images, method="gradskip")
    (expected,) = onnxruntime.InferenceSession(path).run(None, {explainer.architecture.input: images})

    assert result.target.index == expected[0].argmax()
    assert result.target.logit == pytest.approx(float(expected[0].max()), rel=1e-5)
    assert printed.relevance.scores.sum() == pytest.approx(1.0)
    for found in (result, printed):
        assert np.isfinite(found.map).all()
        assert np.ptp(found.map) > 0
