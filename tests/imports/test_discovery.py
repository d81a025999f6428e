"""A package whose modules add rows to its table has all of them once it is imported."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from gradskip_onnx.methods import METHODS
from gradskip_onnx.metrics import METRICS


def test_new_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Below the package too, in the order of their names."""
    package = tmp_path / "planted_rows"
    (package / "inner").mkdir(parents=True)
    (package / "table.py").write_text("ROWS = []\n")
    for name in ("b", "a", "inner/c"):
        (package / f"{name}.py").write_text(f"from planted_rows.table import ROWS\nROWS.append({name!r})\n")
    (package / "inner" / "__init__.py").touch()
    (package / "__init__.py").write_text(
        "from gradskip_onnx.imports.discovery import import_modules\nimport_modules(__path__, __name__)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("planted_rows")
    assert importlib.import_module("planted_rows.table").ROWS == ["a", "b", "inner/c"]


def test_both_tables_are_filled():
    measuring = list(dict.fromkeys(row.measure.__module__.rpartition(".")[2] for row in METRICS.values()))
    assert measuring == ["faithfulness", "insertion_deletion", "pointing", "segmentation"]
    assert {"gradskip", "rise", "grad-cam", "rollout"} <= set(METHODS)
