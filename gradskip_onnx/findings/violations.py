"""Holds findings against a policy: every threshold that is not kept, or that cannot be judged, is a violation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.errors import InputError
from gradskip_onnx.images.classes import find_class
from gradskip_onnx.metrics.statistics import Interval

from .found import Drift, Finding, Findings
from .policy import ALL, EVERY, ClusterThreshold, Policy, Threshold


@dataclass(frozen=True, slots=True)
class Violation:
    """A threshold that is not kept; without a value it could not be judged."""

    rule: str
    finding: str
    index: int | None  # the class; None for all images
    value: float | None
    low: float | None
    high: float | None
    threshold: float
    text: str


def require_classes(policy: Policy, labels: Sequence[str], count: int) -> None:
    """Raise InputError for a class of the policy that the model does not have, best before an audit begins."""
    for threshold in policy.thresholds:
        try:
            classes_of(threshold, labels, count)
        except InputError as error:
            raise InputError(f"policy: {threshold.name}: {error}") from None


def classes_of(threshold: Threshold, labels: Sequence[str], count: int) -> list[int]:
    """The indices of the classes that a threshold lists; none where it is about all, or about every class."""
    if isinstance(threshold.classes, str):
        return []
    found = (find_class(one, labels, count) for one in threshold.classes)
    return [index for index in found if index is not None]


def check(policy: Policy, findings: Findings, audit: Audit) -> tuple[Violation, ...]:
    """Every violation of a policy, in its order."""
    measured = {("findings", one.name): one for one in findings.findings}
    drifted = {("drift", one.finding): one for one in findings.drift}
    found = [
        violation
        for threshold in policy.thresholds
        for violation in _violations(threshold, (measured | drifted).get((threshold.section, threshold.finding)), audit)
    ]
    if policy.clusters is not None:
        found += _minorities(policy.clusters, findings, audit)
    return tuple(found)


def _violations(threshold: Threshold, found: Finding | Drift | None, audit: Audit) -> Iterator[Violation]:
    for index, interval in _judged(threshold, found, audit):
        name = _of(index, audit)
        for key, limit, sign in (("min", threshold.lowest, -1), ("max", threshold.highest, 1)):
            if limit is None:
                continue
            rule = f"{threshold.name}.{key}"
            if interval is None:
                text = f"{threshold.finding}{name}: not measured, so {key} {limit:g} cannot be judged"
                yield Violation(rule, threshold.finding, index, None, None, None, limit, text)
            elif (getattr(interval, threshold.bound) - limit) * sign > 0:
                yield _violation(threshold, rule, key, limit, index, name, interval)
    flags = found.flagged if isinstance(found, Finding) else ()
    if threshold.flagged is not None and len(flags) > threshold.flagged:
        some = "; ".join(f"{_of(flag.index, audit).strip() or 'all images'}: {flag.why}" for flag in flags[:5])
        text = f"{threshold.finding}: {len(flags)} flagged, at most {threshold.flagged} allowed ({some})"
        rule = f"{threshold.name}.flagged"
        yield Violation(rule, threshold.finding, None, float(len(flags)), None, None, threshold.flagged, text)


def _violation(
    threshold: Threshold, rule: str, key: str, limit: float, index: int | None, name: str, found: Interval
) -> Violation:
    words = {"value": "", "low": "the lower bound of ", "high": "the upper bound of "}[threshold.bound]
    drift = "drift of " if threshold.section == "drift" else ""
    text = (
        f"{words}{drift}{threshold.finding}{name} is {getattr(found, threshold.bound):.3g}, {key} {limit:g} "
        f"(value {found.value:.3g}, {found.low:.3g} to {found.high:.3g}, {found.count} images)"
    )
    return Violation(rule, threshold.finding, index, found.value, found.low, found.high, limit, text)


def _judged(
    threshold: Threshold, found: Finding | Drift | None, audit: Audit
) -> list[tuple[int | None, Interval | None]]:
    """The classes that a threshold is about, each with its interval; None where there is none."""
    classes: Mapping[int, Interval] = found.classes if found else {}
    if threshold.classes == ALL:
        return [(None, found.overall if found else None)]
    if threshold.classes == EVERY:
        judged = [(index, one) for index, one in sorted(classes.items()) if one.count >= threshold.images]
        return [*judged] or [(None, None)]
    labels, count = tuple(audit.facts["labels"] or ()), int(audit.facts["classes"])
    return [(index, classes.get(index)) for index in classes_of(threshold, labels, count)]


def _minorities(threshold: ClusterThreshold, findings: Findings, audit: Audit) -> Iterator[Violation]:
    groups = {"any": (True, False), "all": (True,), "classes": (False,)}[threshold.of]
    found = [one for one in findings.clusters if one.minority and (one.index is None) in groups]
    if len(found) > threshold.minority:
        for one in found:
            text = f"minority cluster{_of(one.index, audit)}: {one.why}"
            yield Violation("clusters.minority", "clusters", one.index, one.share, None, None, threshold.minority, text)


def _of(index: int | None, audit: Audit) -> str:
    return "" if index is None else f" of class {audit.label_of(index)} ({index})"
