"""The template of docs/plugins.md is installed as it lies there and works in every command."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gradskip_onnx.plugins
from tests.support.command_line import program
from tests.support.evaluation_data import FLAGS, model_bytes, pictures

ROOT = Path(__file__).parent.parent.parent
TEMPLATE = ROOT / "docs" / "examples" / "plugin"
PAGE = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed template in site/, a model and some images."""
    folder = tmp_path_factory.mktemp("plugin")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    source = shutil.copytree(TEMPLATE, folder / "source")  # building writes into it, and the original must stay clean
    subprocess.run([*command, "--target", str(folder / "site"), str(source)], check=True, capture_output=True)
    (folder / "m.onnx").write_bytes(model_bytes())
    data = pictures(folder / "data", 3)
    (data / "index.txt").write_text("00.png 4\n01.png 0\n", encoding="utf-8")
    return folder


def call(place: Path, *words: object) -> subprocess.CompletedProcess[str]:
    variables = {"PYTHONPATH": str(place / "site"), "GRADSKIP_CACHE": str(place / "cache")}
    done = program(*words, **variables)
    assert done.returncode == 0, done.stderr
    return done


def test_methods_lists_it(place: Path):
    listed = json.loads(call(place, "methods", "--json").stdout)["methods"]
    (row,) = [row for row in listed if row["name"] == "token-gradient"]

    assert row["package"] == "gradskip-example 0.1.0"
    assert row["passes"] == "1 F + 1 B"
    assert [option["name"] for option in row["options"]] == ["depth", "signed"]
    assert "tokens times gradient at one block" in call(place, "methods", "token-gradient").stdout


def test_explain_runs_it_twice_the_same(place: Path):
    """Also from the cache."""
    maps = []
    for number in range(2):
        out = place / f"explained{number}"
        call(place, "explain", place / "m.onnx", place / "data" / "00.png", "--method", "token-gradient",
             "-O", "depth=1", "-o", out, *FLAGS)  # fmt: skip
        (path,) = out.rglob("*.npy")
        maps.append(np.load(path))

    np.testing.assert_array_equal(maps[0], maps[1])
    assert maps[0].max() > 0


def test_evaluate_runs_all_three(place: Path):
    result = call(place, "evaluate", place / "m.onnx", place / "data", "--methods", "token-gradient[depth=0.5],rollout",
                  "--metrics", "half-area,insertion[steps=4]", "-o", place / "evaluated", "--json", *FLAGS)  # fmt: skip
    document: dict[str, Any] = json.loads(result.stdout)

    assert document["data"]["layout"] == "index-file"
    assert document["data"]["images"] == 2
    assert [method["method"] for method in document["methods"]] == ["token-gradient", "rollout"]
    assert 0 < document["methods"][0]["results"]["half-area"]["found"]["value"] < 1


def test_layout_by_name_and_studies(place: Path):
    result = call(place, "study", "alpha", place / "m.onnx", place / "data", "--layout", "index-file", "--metrics",
                  "half-area", "-o", place / "studied", "--json", *FLAGS)  # fmt: skip

    assert json.loads(result.stdout)["data"]["layout"] == "index-file"


def test_half_area_by_hand():
    """Of four pixels 6, 3, 1, 0 the strongest holds more than half."""
    sys.path.insert(0, str(TEMPLATE))
    try:
        from gradskip_example.metric import HalfAreaOptions, half_area  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(TEMPLATE))
    saliency = gradskip_onnx.plugins.Saliency(np.array([[6.0, 3.0], [1.0, 0.0]]), np.zeros((1, 1)))
    found = [half_area(None, saliency, None, HalfAreaOptions(share)).numbers["area"] for share in (0.5, 0.7, 1.0)]

    assert found == [0.25, 0.5, 0.75]


def test_the_page_names_every_public_name():
    """And shows the files of the template as they are."""
    assert [name for name in gradskip_onnx.plugins.__all__ if f"`{name}`" not in PAGE] == []
    for shown in re.findall(r"<!-- (\S+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL):
        assert shown[1] in (TEMPLATE / shown[0]).read_text(encoding="utf-8"), shown[0]


def test_pictures_are_read_late(place: Path):
    """A broken image of the layout fails alone."""
    data = place / "broken"
    data.mkdir()
    Image.new("RGB", (32, 32), "red").save(data / "a.png")
    (data / "b.png").write_bytes(b"no picture")
    (data / "index.txt").write_text("a.png 1\nb.png 1\n", encoding="utf-8")
    variables = {"PYTHONPATH": str(place / "site")}
    done = program("evaluate", place / "m.onnx", data, "--methods", "rollout", "--metrics", "insertion[steps=4]",
                   "-o", place / "half", *FLAGS, **variables)  # fmt: skip

    assert done.returncode == 6
    assert "b.png" in done.stderr
