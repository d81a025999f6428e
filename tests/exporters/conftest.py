"""Files exported once for all tests of the exporters."""

from __future__ import annotations

import pytest
from gradskip_onnx.exporters import load
from gradskip_onnx.exporters.request import ExportRequest

from tests.support.command_line import run

from .small_models import SIZE, VIT


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("exported")


@pytest.fixture(scope="session")
def whole(folder):
    """A file with its gradient graph, and the command's report."""
    path = folder / "whole.onnx"
    result = run("export", VIT, "-o", path, "--random-weights", "--size", "64x96", "--opset", 17, "--show", "tensors")
    assert result.exit_code == 0, result.output
    return path, result


@pytest.fixture(scope="module")
def small_vit():
    return load(ExportRequest(VIT, size=SIZE, random_weights=True))
