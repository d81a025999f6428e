"""Findings held against policies: each kind of threshold, kept and not kept."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gradskip_onnx.errors import InputError
from gradskip_onnx.findings.documents import encode_violations
from gradskip_onnx.findings.found import Cluster, Drift, Finding, Findings, Flag
from gradskip_onnx.findings.policy import read_policy
from gradskip_onnx.findings.violations import check
from gradskip_onnx.metrics.statistics import Interval
from tests.support.audit_data import write_audit

pytest.importorskip("pyarrow")

BORDER = Finding(
    "border", "", "", "lower", Interval(0.30, 0.25, 0.35, 90),
    {0: Interval(0.2, 0.1, 0.3, 40), 1: Interval(0.5, 0.42, 0.58, 40), 2: Interval(0.9, 0.5, 1.0, 4)},
    flagged=(Flag(1, "more than others"),),
)  # fmt: skip
ABSENT = Finding("inside", "", "", "higher", None, {})


def cluster(index: int | None, minority: bool) -> Cluster:
    return Cluster(index, 20, 0.1, np.ones((2, 2)) / 4, (1, 2), 0.9, 0.8, minority, "in the corner")


FOUND = Findings(
    90,
    (BORDER, ABSENT),
    (cluster(None, False), cluster(None, True), cluster(2, True)),
    (Drift("border", True, Interval(0.04, 0.01, 0.07, 90), {0: Interval(-0.1, -0.2, 0.0, 40)}),),
)


@pytest.fixture
def violated(tmp_path):
    audit = write_audit(tmp_path / "audit", 4)

    def call(text):
        (tmp_path / "policy.toml").write_text(text)
        return check(read_policy(tmp_path / "policy.toml", ("border", "inside")), FOUND, audit)

    return call


@pytest.mark.parametrize(
    ("rule", "indices"),
    [
        ("max = 0.31", []),
        ("max = 0.29", [None]),
        ("min = 0.31", [None]),
        ('max = 0.31\nbound = "high"', [None]),  # it may be 0.35
        ('max = 0.29\nbound = "low"', []),  # it may be 0.25
        ('max = 0.24\nbound = "low"', [None]),
        ('min = 0.26\nbound = "low"', [None]),
        ('max = 0.4\nclasses = "every"', [1]),  # class 2 has too few images to be judged
        ('max = 0.4\nclasses = "every"\nimages = 4', [1, 2]),
        ('max = 0.4\nclasses = "every"\nimages = 50', [None]),  # no class at all could be judged
        ('max = 0.4\nclasses = ["cat", 2]', [2]),
        ('max = 0.15\nclasses = ["CAT"]', [0]),
        ("flagged = 0", [None]),
        ("flagged = 1", []),
    ],
)
def test_thresholds_of_a_finding(violated, rule, indices):
    found = violated(f"[findings.border]\n{rule}")

    assert [one.index for one in found] == indices


def test_a_violation_says_what_was_measured(violated):
    (found,) = violated("[[findings.border]]\nmax = 0.4\n[[findings.border]]\nmax = 0.4\nclasses = [1]")

    assert (found.rule, found.finding, found.index) == ("findings.border[1].max", "border", 1)
    assert (found.value, found.low, found.high, found.threshold) == (0.5, 0.42, 0.58, 0.4)
    assert found.text == "border of class dog (1) is 0.5, max 0.4 (value 0.5, 0.42 to 0.58, 40 images)"


def test_what_was_not_measured_does_not_pass(violated):
    (found,) = violated("[findings.inside]\nmin = 0.5")

    assert (found.rule, found.value) == ("findings.inside.min", None)
    assert "not measured" in found.text
    assert violated("[drift.inside]\nmax = 0.5")[0].value is None


def test_flags_are_named(violated):
    (found,) = violated("[findings.border]\nflagged = 0")

    assert "1 flagged, at most 0 allowed (of class dog (1): more than others)" in found.text


def test_drift_has_its_own_thresholds(violated):
    assert violated("[drift.border]\nmax = 0.05\nmin = -0.05") == ()
    (found,) = violated("[drift.border]\nmax = 0.03")
    assert found.text.startswith("drift of border is 0.04, max 0.03")
    assert [one.index for one in violated("[drift.border]\nmin = -0.05\nclasses = [0]")] == [0]


@pytest.mark.parametrize(
    ("rule", "indices"),
    [
        ("minority = 0", [None, 2]),
        ('minority = 0\nof = "all"', [None]),
        ('minority = 0\nof = "classes"', [2]),
        ('minority = 1\nof = "classes"', []),
        ("minority = 2", []),
    ],
)
def test_minority_clusters(violated, rule, indices):
    assert [one.index for one in violated(f"[clusters]\n{rule}")] == indices


def test_a_class_that_does_not_exist_is_a_mistake_of_the_policy(violated):
    with pytest.raises(InputError, match="no class is called 'fish'"):
        violated('[findings.border]\nmax = 1\nclasses = ["fish"]')


def test_the_document_is_strict_json(violated):
    document = json.loads(encode_violations(violated("[findings.border]\nmax = 0.29"), "ab"))

    assert document["format"] == 1
    assert document["policy_sha256"] == "ab"
    (one,) = document["violations"]
    assert set(one) == {"rule", "finding", "class", "value", "low", "high", "threshold", "text"}
    assert (one["class"], one["value"], one["threshold"]) == (None, 0.3, 0.29)
