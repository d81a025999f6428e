"""The list of methods, and `explain` with each of them, as a user meets them."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from gradskip_onnx.cli.console import Bar
from PIL import Image

from gradskip_onnx import api
from gradskip_onnx.methods import METHODS
from tests.support import models
from tests.support.command_line import run
from tests.support.method_models import fast

SETTINGS = ["--preset", "half", "--crop", "1.0", "--threads", "1"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small transformer and a picture."""
    folder: Path = tmp_path_factory.mktemp("methods")
    (folder / "vit.onnx").write_bytes(models.vit(models.Vit(depth=3)).SerializeToString())
    noise = np.random.default_rng(0).integers(0, 255, (40, 48, 3), np.uint8)
    Image.fromarray(noise).save(folder / "noise.png")
    return folder


def test_all_methods_are_listed():
    shown = run("methods").stdout
    listed = json.loads(run("methods", "--json").stdout)["methods"]

    assert [entry["name"] for entry in listed] == sorted(METHODS)
    for entry in listed:
        (line,) = [line for line in shown.splitlines() if line.split()[:1] == [entry["name"]]]
        assert entry["passes"] in line
        assert entry["summary"].split()[:3] == line.split(entry["passes"])[1].split()[:3]
        alone = on_one_line(run("methods", entry["name"]).stdout)
        assert all(text in alone for text in (entry["passes"], entry["reference"], *entry["needs"]))


def on_one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("names", [(), *((name,) for name in sorted(METHODS))], ids=str)
def test_the_listing_fits_a_terminal(names: tuple[str, ...]):
    assert max(map(len, run("methods", *names).stdout.splitlines())) <= 80


def test_cost_and_needs_are_those_of_the_row():
    facts = json.loads(run("methods", "tam", "--json").stdout)

    assert (facts["forwards"], facts["backwards"], facts["passes"]) == (21, 20, "21 F + 20 B")
    assert facts["needs"] == ["attention (all blocks)", "gradient at the tokens (last block)"]
    assert json.loads(run("methods", "rise", "--json").stdout)["needs"] == []


@pytest.mark.parametrize("name", sorted(METHODS))
def test_options_of_a_method(name: str):
    shown = run("methods", name)

    assert shown.exit_code == 0
    assert f"{name}: {METHODS[name].summary}" in on_one_line(shown.stdout)
    for each in fields(METHODS[name].options):
        assert f"{each.name}={each.default}" in shown.stdout
        assert on_one_line(each.metadata["help"]) in on_one_line(shown.stdout)


def test_unknown_method_is_one_line():
    result = run("methods", "nonesuch")

    assert result.exit_code == 2
    assert result.stderr.startswith("error: unknown method 'nonesuch'; known: ")
    assert "rollout" in result.stderr


@pytest.mark.parametrize("name", sorted(METHODS))
def test_explain_with_each_method(place: Path, tmp_path: Path, name: str):
    pairs = [text for key, value in fast(name).items() for text in ("-O", f"{key}={value}")]
    result = run(
        "explain", place / "vit.onnx", place / "noise.png", "-o", tmp_path, "--method", name, *pairs, *SETTINGS
    )

    assert result.exit_code == 0, result.output
    values = np.load(tmp_path / "noise.npy")
    assert values.shape == (40, 48)
    assert np.isfinite(values).all()
    assert json.loads((tmp_path / "noise.json").read_text())["method"] == name


@pytest.mark.parametrize("name", ["rise", "mutex", "tam", "smoothgrad", "integrated-gradients", "score-cam"])
def test_progress_is_told_of_every_further_pass(place: Path, name: str):
    told: list[int] = []
    options = fast(name)
    api.load(place / "vit.onnx", threads=1).explain(
        np.ones((1, 3, 32, 32), np.float32), method=name, progress=told.append, **options
    )

    row = METHODS[name]
    assert sum(told) == row.cost(row.options(**options)).forwards - 1


@pytest.mark.parametrize("name", ["attention-flow", "vit-cx"])
def test_a_missing_package_is_one_line(place: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch):
    for module in [each for each in sys.modules if each.partition(".")[0] == "scipy"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "scipy", None)  # as if it was not installed
    result = run("explain", place / "vit.onnx", place / "noise.png", "-o", tmp_path, "--method", name, *SETTINGS)

    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        "error: scipy is not installed; run: pip install 'gradskip-onnx[evaluate]'"
    )


def test_bar_counts_passes_and_images():
    """An image that took fewer or more passes than expected counts for as many as were expected."""
    seen: list[int] = []
    bar = Bar(lambda completed, **_: seen.append(completed), passes=10)
    bar.further(4)
    bar("a")
    bar.further(8)
    bar.further(8)
    bar("b")

    assert seen == [4, 10, 18, 20, 20]
