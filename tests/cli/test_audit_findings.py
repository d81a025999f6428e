"""The findings of `audit` on the command line: files, what is printed, policies and baselines."""

from __future__ import annotations

import json

import pytest

from gradskip_onnx.demo import demo_model
from tests.support.command_line import run

pytest.importorskip("pyarrow")
pytest.importorskip("sklearn")

BASE = ("audit", str(demo_model()), "planted:24", "--method", "grad-cam", "--check-draws", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("audits")


def audit(folder, *flags: str):
    return run(*BASE, "-o", str(folder / "audit"), *flags)


def test_findings_are_written_and_printed(folder):
    result = audit(folder)

    assert result.exit_code == 0, result.output
    document = json.loads((folder / "audit" / "findings.json").read_text())
    assert document["images"] == 24
    assert {"accuracy", "border", "inside", "agreement"} <= {one["name"] for one in document["findings"]}
    assert "accuracy" in result.stdout
    assert not (folder / "audit" / "violations.json").exists()


def test_a_policy_that_is_kept(folder):
    (folder / "kept.toml").write_text("[findings.accuracy]\nmin = 0.5\n[findings.border]\nmax = 0.9")

    result = audit(folder, "--policy", str(folder / "kept.toml"))

    assert result.exit_code == 0, result.output
    assert "policy    kept" in result.stdout
    assert json.loads((folder / "audit" / "violations.json").read_text())["violations"] == []


def test_a_policy_that_is_violated_ends_with_code_5(folder):
    (folder / "broken.toml").write_text('[findings.border]\nmax = 0.0001\nclasses = "every"\nimages = 1')

    result = audit(folder, "--policy", str(folder / "broken.toml"))

    assert result.exit_code == 5
    assert "error: policy: border of class" in result.stderr
    found = json.loads((folder / "audit" / "violations.json").read_text())["violations"]
    assert {one["rule"] for one in found} == {"findings.border.max"}


ABSENT_CLASS = '[findings.border]\nmax = 1\nclasses = ["moon", "unicorn"]'
MISTAKES = {
    "[findings.boarder]\nmax = 1": "did you mean 'border'",
    ABSENT_CLASS: "policy: findings.border: no class is called 'unicorn'",
}


@pytest.mark.parametrize(("policy", "said"), MISTAKES.items(), ids=["finding", "class"])
def test_a_mistake_in_a_policy_is_said_before_the_audit_begins(folder, policy, said):
    (folder / "wrong.toml").write_text(policy)

    result = run(*BASE, "-o", str(folder / "never"), "--policy", str(folder / "wrong.toml"))

    assert result.exit_code == 2
    assert said in result.stderr
    assert not (folder / "never").exists()


def test_a_baseline_shows_drift(folder):
    (folder / "drift.toml").write_text("[drift.border]\nmax = 0.01\nmin = -0.01")

    result = audit(folder, "--baseline", str(folder / "audit"), "--policy", str(folder / "drift.toml"))

    assert result.exit_code == 0, result.output
    assert "drift" in result.stdout
    document = json.loads((folder / "audit" / "findings.json").read_text())
    assert {one["overall"]["value"] for one in document["drift"]} == {0.0}


def test_drift_needs_a_baseline(folder):
    (folder / "drift.toml").write_text("[drift.border]\nmax = 0.01")

    result = audit(folder, "--policy", str(folder / "drift.toml"))

    assert result.exit_code == 2
    assert "--baseline" in result.stderr
