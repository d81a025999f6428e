"""A small model that is opened once for the tests of a file."""

from __future__ import annotations

import pytest

import gradskip_onnx
from tests.support.models import Vit, vit

from .pictures import LABELS


@pytest.fixture(scope="module")
def explainer() -> gradskip_onnx.Explainer:
    return gradskip_onnx.load(
        vit(Vit(depth=3)).SerializeToString(), "cpu", preprocess={"crop": 1.0}, labels=LABELS, threads=1
    )
