"""A small audit of noise by a tiny model, which tests of runs share; none of them changes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.audit.run import run_audit
from gradskip_onnx.datasets import load
from tests.support.evaluation_data import explainer, pictures

from .runs import COUNT, SETTINGS


@pytest.fixture(scope="module")
def model():
    return explainer()


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    return pictures(tmp_path_factory.mktemp("photos"), COUNT)


@pytest.fixture(scope="module")
def audit(model, photos, tmp_path_factory) -> Audit:
    return run_audit(model, load(str(photos)), tmp_path_factory.mktemp("audit"), SETTINGS)
