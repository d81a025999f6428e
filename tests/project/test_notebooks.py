"""The notebooks of the docs run, say the same as when they were written, and are small enough for a repository."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from .notebooks import NOTEBOOKS, executed

MOST_BYTES = 600_000
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def shown(notebook: Any, kind: str) -> list[bool]:
    """For each cell of code, whether it has an output of this kind (a prefix of a MIME type)."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [
        any(name.startswith(kind) for output in cell["outputs"] for name in output.get("data", {})) for cell in cells
    ]


def test_there_are_two():
    assert [path.stem for path in NOTEBOOKS] == ["compare-methods", "first-steps"]


@each_notebook
def test_it_is_kept_with_its_outputs(path: Path):
    notebook = read(path)
    counts = [cell["execution_count"] for cell in notebook["cells"] if cell["cell_type"] == "code"]

    assert counts == list(range(1, len(counts) + 1))
    assert any(shown(notebook, "image/"))
    assert path.stat().st_size < MOST_BYTES
    assert not re.search(r"/(?:root|home|Users)/|Traceback", path.read_text(encoding="utf-8"))


@pytest.mark.slow
@each_notebook
def test_it_runs_and_shows_what_it_showed(path: Path):
    """A cell that ends in an explanation shows its picture."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    fresh = executed(path)

    assert shown(fresh, "image/") == shown(read(path), "image/")


def test_a_cell_with_nothing_but_an_explanation_shows_the_picture():
    notebook = read(next(path for path in NOTEBOOKS if path.stem == "first-steps"))
    (cell,) = [cell for cell in notebook["cells"] if "".join(cell["source"]) == 'explainer.explain("photo.jpg")']

    assert any("image/jpeg" in output["data"] for output in cell["outputs"])
