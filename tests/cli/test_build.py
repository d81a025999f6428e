"""gradskip-onnx build: a file that explains itself, from the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.support.built_files import run as run_file
from tests.support.built_files import session_of
from tests.support.command_line import run
from tests.support.models import Vit, vit


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save_model(vit(Vit()), path)
    return path


def test_builds_a_file(model: Path, tmp_path: Path):
    done = run(
        "build", str(model), "-o", str(tmp_path / "out" / "explained.onnx"), "-O", "detail=0", "--preset", "half"
    )
    assert done.exit_code == 0, done.output
    found = run_file(session_of(tmp_path / "out" / "explained.onnx"), np.ones((1, 3, 32, 32), np.float32))

    assert "gradskip+[detail=0.0]" in done.stdout
    assert found["relevance"].shape == (1, 32, 32)


def test_an_existing_file_needs_force(model: Path, tmp_path: Path):
    again = ["build", str(model), "-o", str(tmp_path / "explained.onnx"), "--preset", "half"]
    run(*again)
    refused = run(*again)

    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert run(*again, "--force").exit_code == 0


def test_a_method_that_cannot_be_built_in(model: Path, tmp_path: Path):
    refused = run("build", str(model), "-o", str(tmp_path / "explained.onnx"), "--method", "rise")

    assert refused.exit_code == 2
    assert "cannot be written into a graph" in refused.stderr
    assert not (tmp_path / "explained.onnx").exists()
