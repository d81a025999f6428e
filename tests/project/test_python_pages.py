"""The Python of docs/python.md and docs/preprocessing.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from tests.support.models import Vit, vit

DOCS = Path(__file__).parent.parent.parent / "docs"
SNIPPETS = [
    pytest.param(code, id=f"{name} {number}")
    for name in ("python.md", "preprocessing.md")
    for number, code in enumerate(
        re.findall(r"<!-- run -->\n```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), flags=re.DOTALL)
    )
]


def test_there_are_snippets():
    assert len(SNIPPETS) >= 4


@pytest.mark.parametrize("code", SNIPPETS)
def test_snippets_run(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(vit(Vit(depth=2)), "model.onnx")
    Path("names.txt").write_text("cat\ndog\nbird\nfish\nelk\n")
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save("photo.png")

    exec(compile(code, "<docs>", "exec"), {"__name__": "docs"})
