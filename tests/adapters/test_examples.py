"""The code of docs/adapters.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.evaluation_data import model_bytes, pictures

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

PAGE = (Path(__file__).parent.parent.parent / "docs" / "adapters.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"```python\n# ([\w-]+)\n(.*?)```", PAGE, re.DOTALL))
PACKAGES = {"quantus": "quantus", "captum": "captum", "scikit-learn": "sklearn"}


def test_every_example_is_tried():
    assert list(EXAMPLES) == list(PACKAGES)
    assert PAGE.count("```python") == len(EXAMPLES)


@pytest.mark.parametrize("name", PACKAGES)
@pytest.mark.filterwarnings("ignore")  # of the packages
def test_example(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip(PACKAGES[name])
    (tmp_path / "model.onnx").write_bytes(model_bytes())
    for kind in ("bee", "cat"):
        pictures(tmp_path / "photos" / kind, 2)
        (tmp_path / "photos" / kind / "labels.csv").unlink()
    monkeypatch.chdir(tmp_path)
    found: dict[str, object] = {}
    exec(compile(EXAMPLES[name], f"docs/adapters.md: {name}", "exec"), found)

    results = {"quantus": "scores", "captum": "figure", "scikit-learn": "groups"}
    assert found[results[name]] is not None
    assert (tmp_path / "captum.png").exists() == (name == "captum")
