"""Findings and violations are read back as they were written, and what is none of them is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from gradskip_onnx.audit.place import open_place
from gradskip_onnx.errors import InputError
from gradskip_onnx.findings.documents import (
    FINDINGS,
    VIOLATIONS,
    encode_findings,
    encode_violations,
    read_findings,
    read_violations,
)
from gradskip_onnx.findings.find import find
from gradskip_onnx.findings.violations import Violation
from tests.support.audit_data import write_audit


def test_findings_come_back(tmp_path: Path):
    audit, earlier = write_audit(tmp_path / "now", 60, shortcut=0), write_audit(tmp_path / "then", 60, seed=1)
    found = find(audit, earlier, resamples=50)
    audit.place.write(FINDINGS, encode_findings(found))
    back = read_findings(audit.place)

    assert (back.images, back.findings, back.drift) == (found.images, found.findings, found.drift)
    assert found.clusters
    for one, other in zip(back.clusters, found.clusters, strict=True):
        plain = [{k: v for k, v in _fields(each).items() if k != "centre"} for each in (one, other)]
        assert plain[0] == plain[1]
        np.testing.assert_allclose(one.centre, other.centre, atol=1e-6)
    assert any(finding.flagged for finding in back.findings)


def _fields(value: Any) -> dict[str, Any]:
    return {entry.name: getattr(value, entry.name) for entry in dataclasses.fields(value)}


def test_violations_come_back(tmp_path: Path):
    place = open_place(tmp_path)
    found = (
        Violation("findings.border.max", "border", 2, 0.5, 0.4, 0.6, 0.3, "too much"),
        Violation("findings.inside.min", "inside", None, None, None, None, 0.3, "not measured"),
    )

    assert read_violations(place) is None
    place.write(VIOLATIONS, encode_violations(found, "a" * 64))
    assert read_violations(place) == found


@pytest.mark.parametrize(
    "content", [b"{}", b'{"findings": [{}]}', b'{"findings": 3}', b'{"images": "x", "findings": []}']
)
def test_other_findings_are_refused(tmp_path: Path, content: bytes):
    place = open_place(tmp_path)
    place.write(FINDINGS, content)
    with pytest.raises(InputError, match="not the findings of an audit"):
        read_findings(place)


@pytest.mark.parametrize("content", [b"{}", b'{"violations": [{}]}', b'{"violations": [{"class": 1, "x": 2}]}'])
def test_other_violations_are_refused(tmp_path: Path, content: bytes):
    place = open_place(tmp_path)
    place.write(VIOLATIONS, content)
    with pytest.raises(InputError, match="not the violations"):
        read_violations(place)
