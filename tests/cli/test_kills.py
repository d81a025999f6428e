"""Killed at any point and started again: the results are those of a run that nobody disturbed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from benchmarks.kills import rounds


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills as POSIX does")
def test_killed_at_any_point_and_resumed(tmp_path: Path):
    """Ten kills of each command that hit, at random moments; `python -m benchmarks.kills` has two hundred."""
    hits = {"explain": 0, "evaluate": 0}
    for name, count in rounds(200, 0, tmp_path, tuple(hits)):
        hits[name] += count
        if min(hits.values()) >= 10:
            break
    assert min(hits.values()) >= 10


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills as POSIX does")
def test_export_killed_at_any_point_and_started_again(tmp_path: Path):
    """Three kills that hit; what is written is whole, or not there."""
    pytest.importorskip("timm")
    hits = 0
    for _, count in rounds(3, 0, tmp_path, ("export",)):
        hits += count
    assert hits >= 3
