"""gradskip-onnx build: a file that explains itself, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

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


def test_inspect_and_explain_say_what_was_built_in(model: Path, tmp_path: Path):
    path = tmp_path / "explained.onnx"
    run("build", model, "-o", path, "-O", "detail=0", "--preset", "half", "--top", "2")
    shown, document = run("inspect", path).stdout, json.loads(run("inspect", path, "--json").stdout)
    plain = json.loads(run("inspect", model, "--json").stdout)

    assert "built   gradskip+: against=others" in shown
    assert "2 classes" in shown
    assert document["built"]["options"]["detail"] == 0
    assert document["built"]["source_sha256"] in shown
    assert plain["built"] is None
    assert document["blocks"] == plain["blocks"]


def test_explain_runs_a_built_file(model: Path, tmp_path: Path):
    """It says so; another method is explained as of the model the file was built from."""
    path = tmp_path / "explained.onnx"
    Image.new("RGB", (40, 40), (200, 30, 30)).save(tmp_path / "red.png")
    run("build", model, "-o", path, "--method", "grad-cam", "--preset", "half")
    words = ("explain", path, tmp_path / "red.png", "-o", tmp_path / "out", "--force")
    inside, asked = run(*words), run(*words, "--method", "rollout")

    assert "grad-cam, built into the file" in inside.stdout
    assert "by grad-cam" in inside.stdout
    assert "built into" not in asked.stdout
    assert "by rollout" in asked.stdout


def test_explain_says_where_the_map_of_a_file_is_not_used(model: Path, tmp_path: Path):
    path = tmp_path / "explained.onnx"
    Image.new("RGB", (40, 40), (200, 30, 30)).save(tmp_path / "red.png")
    run("build", model, "-o", path, "--smoothed", "--normalise", "--preset", "half")
    done = run("explain", path, tmp_path / "red.png", "-o", tmp_path / "out", "--force")

    assert done.exit_code == 0, done.output
    assert "computed anew: the map in the file is smoothed and normalised" in done.stdout
    assert "built into the file" not in done.stdout
