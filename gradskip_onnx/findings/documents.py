"""findings.json and violations.json: what was found as documents, and read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from gradskip_onnx.audit.place import Place
from gradskip_onnx.audit.reading import read_object
from gradskip_onnx.errors import InputError
from gradskip_onnx.metrics.statistics import Interval
from gradskip_onnx.output.json_text import encode_json

from .found import Baseline, Cluster, Drift, Finding, Findings, Flag
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
        "baseline": None if findings.baseline is None else asdict(findings.baseline),
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


def read_findings(place: Place) -> Findings:
    """The findings in the folder of an audit; raises InputError if they are not those of this version."""
    document = read_object(place, FINDINGS)
    try:
        return _findings(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{place.name}/{FINDINGS}: not the findings of an audit of this version ({error})") from None


def read_violations(place: Place) -> tuple[Violation, ...] | None:
    """What a policy did not allow; None if there was no policy."""
    if not place.exists(VIOLATIONS):
        return None
    try:
        return tuple(
            Violation(index=one["class"], **{name: value for name, value in one.items() if name != "class"})
            for one in read_object(place, VIOLATIONS)["violations"]
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{place.name}/{VIOLATIONS}: not the violations of this version ({error})") from None


def _findings(document: Mapping[str, Any]) -> Findings:
    findings = (
        Finding(
            one["name"], one["definition"], one["unit"], one["better"], _interval(one["overall"]),
            _classes(one["classes"]), tuple(one["examples"]),
            tuple(Flag(flag["class"], flag["why"]) for flag in one["flagged"]),
        )
        for one in document["findings"]
    )  # fmt: skip
    clusters = (
        Cluster(
            one["class"], one["size"], one["share"], np.array(one["centre"], np.float64), tuple(one["members"]),
            one["agreement"], one["separation"], one["minority"], one["why"],
        )
        for one in document["clusters"]
    )  # fmt: skip
    drift = (
        Drift(one["finding"], one["paired"], _interval(one["overall"]), _classes(one["classes"]))
        for one in document["drift"]
    )
    since = document["baseline"]
    baseline = None if since is None else Baseline(**since | {"differs": tuple(since["differs"])})
    return Findings(int(document["images"]), tuple(findings), tuple(clusters), tuple(drift), baseline)


def _interval(found: Mapping[str, Any] | None) -> Interval | None:
    return None if found is None else Interval(**found)


def _classes(found: Mapping[str, Mapping[str, Any]]) -> dict[int, Interval]:
    return {int(index): Interval(**interval) for index, interval in found.items()}
