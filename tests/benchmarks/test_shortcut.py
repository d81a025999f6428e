"""A model that has learnt a mark in the corner fails its audit, and one that has not passes on the same images."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("pyarrow")
pytest.importorskip("sklearn")

from gradskip_onnx.demo import demo_model
from tests.support.command_line import run

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_a_planted_shortcut_is_caught(tmp_path):
    import torch

    from benchmarks.shortcut.__main__ import POLICY
    from benchmarks.shortcut.mark import REGION
    from benchmarks.shortcut.scenes import SHORTCUT, train, write_scenes

    torch.set_num_threads(1)
    (tmp_path / "policy.toml").write_text(POLICY)
    write_scenes(tmp_path / "scenes", 240)
    train(tmp_path / "shortcut.onnx", 120, shortcut=True)

    def audit(model: object, name: str) -> tuple[int, Any]:
        result = run("audit", model, tmp_path / "scenes", "-o", tmp_path / name, "--region", REGION,
                     "--policy", tmp_path / "policy.toml", "--check-draws", "1")  # fmt: skip
        return result.exit_code, json.loads((tmp_path / name / "findings.json").read_text())

    code, found = audit(tmp_path / "shortcut.onnx", "caught")
    violations = json.loads((tmp_path / "caught" / "violations.json").read_text())["violations"]
    assert code == 5
    assert {(one["rule"], one["class"]) for one in violations} == {
        ("findings.region:corner.max", SHORTCUT),
        ("clusters.minority", None),
    }
    flagged = {one["name"]: one["flagged"] for one in found["findings"]}
    assert SHORTCUT in [flag["class"] for flag in flagged["region:corner"]]

    code, found = audit(demo_model(), "passed")
    assert code == 0
    assert not any(one["minority"] for one in found["clusters"])
