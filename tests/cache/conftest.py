"""What tests of the cache share."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradskip_onnx.cache.folder import VARIABLE


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"
