"""The benchmark runs: the interleaving, the pages, and a small model against PyTorch."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("pytorch_grad_cam")
sys.path.insert(0, str(Path(__file__).parent.parent))

from click.testing import CliRunner

from benchmarks.speed.__main__ import main
from benchmarks.speed.measure import interleaved


def test_every_contender_is_called_twice_a_round_in_changing_order():
    calls: list[str] = []
    timings = interleaved({name: partial(calls.append, name) for name in "abc"}, rounds=6)
    assert sorted(calls) == sorted("abc" * 12)
    assert all(calls[i] == calls[i + 1] for i in range(0, len(calls), 2))
    assert len({tuple(calls[i : i + 6]) for i in range(0, len(calls), 6)}) > 1
    assert all(timing.low <= timing.median <= timing.high for timing in timings.values())


def test_quick_run(tmp_path):
    done = CliRunner().invoke(main, [str(tmp_path), "--quick", "--model", "ViT-tiny", "--no-processes"])
    assert done.exit_code == 0, done.output
    (result,) = json.loads((tmp_path / "speed.json").read_text())["results"]
    assert result["difference"] < 1e-5
    assert "ours, explanation" in (tmp_path / "speed.md").read_text()
    assert (tmp_path / "speed.svg").read_text().startswith("<svg")
