"""Disks that fill up and folders that cannot be written to: an export is whole or absent, and says so in one line."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("timm")

from gradskip_onnx.exporters import pipeline

from tests.support.command_line import fails, run

from .small_models import VIT

pytestmark = pytest.mark.torch
WORDS = ("export", VIT, "--random-weights", "--size", "32")


def refuse(kind: int, text: str):
    def refused(*_: object, **__: object) -> None:
        raise OSError(kind, text)

    return refused


def test_read_only_folder_is_noticed_before_weights_are_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "touch", refuse(errno.EROFS, "Read-only file system"))
    monkeypatch.setattr(pipeline, "load", lambda _: pytest.fail("weights were loaded"))
    fails(run(*WORDS, "-o", tmp_path / "m.onnx"), 2, "Read-only file system")


@pytest.mark.slow
def test_no_room_in_the_temporary_folder(tmp_path, monkeypatch):
    """What torch writes in between lies beside the output, and is gone at the end."""
    monkeypatch.setattr(tempfile, "gettempdir", refuse(errno.ENOSPC, "No space left on device"))
    result = run(*WORDS, "-o", tmp_path / "m.onnx")
    assert result.exit_code == 0, result.output
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.slow
@pytest.mark.parametrize("most", [0, 1_000_000, 22_000_000], ids=["nothing", "half the trace", "half the file"])
def test_files_may_not_grow(tmp_path, most):
    """The trace has about 21.6 MB, the file with its gradient graph 22.5."""
    import resource

    done = subprocess.run(
        [sys.executable, "-P", "-m", "gradskip_onnx.cli", *WORDS, "-o", str(tmp_path / "m.onnx")],
        env=os.environ | {"TMPDIR": "/nowhere"}, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("error: ")] == done.stderr.splitlines()[-1:]
    assert "File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []
