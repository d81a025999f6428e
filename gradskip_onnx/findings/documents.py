"""findings.json and violations.json: what was found as documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradskip_onnx.metrics.statistics import Interval
from gradskip_onnx.output.json_text import encode_json

from .found import Findings
from .violations import Violation

FORMAT = 1
FINDINGS, VIOLATIONS = "findings.json", "violations.json"
DIGITS = 6  # of the mean maps: they are looked at, not calculated with


def encode_findings(findings: Findings) -> bytes:
    """findings.json."""
    return encode_json(as_document(findings))


def as_document(findings: Findings) -> dict[str, Any]:
    """The findings as they are written."""
    return {
        "format": FORMAT,
        "images": findings.images,
        "findings": [
            {
                "name": one.name,
                "definition": one.definition,
                "unit": one.unit,
                "better": one.better,
                "overall": of_interval(one.overall),
                "classes": _by_class(one.classes),
                "examples": one.examples,
                "flagged": [{"class": flag.index, "why": flag.why} for flag in one.flagged],
            }
            for one in findings.findings
        ],
        "clusters": [
            {
                "class": one.index,
                "size": one.size,
                "share": one.share,
                "centre": np.round(one.centre, DIGITS),
                "members": one.members,
                "agreement": one.agreement,
                "separation": one.separation,
                "minority": one.minority,
                "why": one.why,
            }
            for one in findings.clusters
        ],
        "drift": [
            {
                "finding": one.finding,
                "paired": one.paired,
                "overall": of_interval(one.overall),
                "classes": _by_class(one.classes),
            }
            for one in findings.drift
        ],
    }


def encode_violations(violations: Sequence[Violation], policy_sha256: str) -> bytes:
    """violations.json; without violations its list is empty."""
    return encode_json({"format": FORMAT, "policy_sha256": policy_sha256, "violations": as_list(violations)})


def as_list(violations: Sequence[Violation]) -> list[dict[str, Any]]:
    """Violations as they are written."""
    return [
        {
            "rule": one.rule,
            "finding": one.finding,
            "class": one.index,
            "value": one.value,
            "low": one.low,
            "high": one.high,
            "threshold": one.threshold,
            "text": one.text,
        }
        for one in violations
    ]


def of_interval(found: Interval | None) -> dict[str, Any] | None:
    """A value with its interval and its images."""
    return None if found is None else {"value": found.value, "low": found.low, "high": found.high, "count": found.count}


def _by_class(classes: Mapping[int, Interval]) -> dict[str, Any]:
    return {str(index): of_interval(found) for index, found in sorted(classes.items())}
