"""The sections of the page: what stands out, findings by class, classes, patterns, and change since a baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradskip_onnx.findings.found import Better, Cluster, Finding
from gradskip_onnx.findings.words import base_of, interval_text, title_of, value_text
from gradskip_onnx.metrics.statistics import Interval

from .cards import STRIP, Card, strip
from .charts import FEWEST, Histogram, Ranges, histogram, ranges
from .content import Content, column
from .mean_maps import MeanMaps
from .pictures import mean_picture
from .summary import StandsOut

MOST_CLUSTERS, MOST_ROWS = 16, 40
ESSENTIAL = ("accuracy", "check-passed", "inside", "border")  # drawn by class even where nothing is flagged


@dataclass(frozen=True, slots=True)
class Flagged:
    """Something that stands out, with the mean map of its class and examples."""

    what: StandsOut
    mean: str | None
    examples: Sequence[Card]


@dataclass(frozen=True, slots=True)
class Charted:
    """A finding by class: chart, table, examples."""

    finding: Finding
    title: str
    chart: Ranges
    rows: Sequence[Mapping[str, Any]]
    rows_left: int
    examples: Sequence[Card]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A cluster with its mean map and members."""

    cluster: Cluster
    where: str
    share: str
    mean: str
    examples: Sequence[Card]


def flagged(content: Content, means: MeanMaps, what: StandsOut) -> Flagged:
    """What stands out, with examples of its class: those of its first flag first, and where there are none, any."""
    examples = list(dict.fromkeys(position for flag in what.flags for position in flag.finding.examples))
    if what.index is not None:
        positions, targets = (content.audit.table[name].to_pylist() for name in ("position", "target"))
        own = [position for position, target in zip(positions, targets, strict=True) if target == what.index]
        mine = set(own)
        examples = list(dict.fromkeys([*(position for position in examples if position in mine), *own[:STRIP]]))
    mean = means.overall if what.index is None else means.classes.get(what.index)
    return Flagged(what, None if mean is None else mean_picture(mean), strip(content, examples))


def overview(finding: Finding) -> dict[str, Any]:
    """A row of the table of findings."""
    found = finding.overall
    return {
        "finding": finding,
        "title": title_of(finding.name),
        "value": value_text(found.value if found else None, finding.unit),
        "interval": interval_text(found, finding.unit),
    }


def histograms(content: Content) -> Iterator[Histogram]:
    """How the numbers of single images are spread."""
    audit = content.audit
    gap = column(audit, "check_random") - column(audit, "check_erased")
    rows = (
        ("How sure the model is", column(audit, "probability"), (0.0, 1.0), "probability of the class explained"),
        ("What the check finds", gap, (-1.0, 1.0), "above 0: what is marked matters more than random patches"),
        ("On the object", column(audit, "inside"), (0.0, 1.0), "share of the relevance"),
        ("On the border", column(audit, "border"), (0.0, 1.0), "share of the relevance"),
        ("Concentration", column(audit, "concentration"), (0.0, 1.0), "0 is spread evenly, 1 is a single point"),
    )
    for title, values, span, words in rows:
        drawn = histogram(title, values, span, words)
        if drawn is not None:
            yield drawn


def charted(content: Content) -> list[Charted]:
    """The findings that have values by class: flagged ones first, then the essential ones."""
    order = sorted(
        content.findings.findings,
        key=lambda one: (base_of(one.name) != one.name, not one.flagged, one.name not in ESSENTIAL),
    )
    return [found for finding in order if (found := _charted(content, finding)) is not None]


def _charted(content: Content, finding: Finding) -> Charted | None:
    chart = ranges(finding, content.audit.label_of)
    if chart is None:
        return None
    why = {flag.index: flag.why for flag in finding.flagged}
    order = sorted(finding.classes, key=lambda index: (index not in why, finding.classes[index].value))
    rows = [
        {
            "name": content.audit.label_of(index),
            "why": why.get(index, ""),
            "value": value_text(finding.classes[index].value, finding.unit),
            "interval": interval_text(finding.classes[index], finding.unit),
            "count": finding.classes[index].count,
        }
        for index in order[:MOST_ROWS]
    ]
    examples = strip(content, finding.examples)
    return Charted(finding, title_of(finding.name), chart, rows, len(order) - len(rows), examples)


def drift_rows(content: Content) -> Iterator[dict[str, Any]]:
    """How much each finding has changed since the baseline."""
    known = {finding.name: (finding.unit, finding.better) for finding in content.findings.findings}
    for drift in content.findings.drift:
        if drift.overall is not None:
            found, (unit, better) = drift.overall, known.get(drift.finding, ("", "neither"))
            yield {
                "title": title_of(drift.finding),
                "value": value_text(found.value, unit),
                "interval": interval_text(found, unit),
                "outcome": outcome(found, better),
                "paired": drift.paired,
            }


def outcome(change: Interval, better: Better) -> str:
    """What a change means, in a word; empty where the interval holds no change at all."""
    if change.low <= 0 <= change.high:
        return ""
    if better == "neither":
        return "changed"
    return "better" if (change.value > 0) == (better == "higher") else "worse"


def classes(content: Content, means: MeanMaps, most: int) -> list[dict[str, Any]]:
    """The classes that are shown: those with flags first, then by number of images."""
    accuracy = content.findings.named("accuracy")
    flags = [flag.index for finding in content.findings.findings for flag in finding.flagged]
    found = []
    for index in sorted(shown_classes(means), key=lambda one: (-flags.count(one), -means.counts[one], one))[:most]:
        right = accuracy.classes.get(index) if accuracy is not None else None
        found.append(
            {
                "name": "no class" if index < 0 else content.audit.label_of(index),
                "count": means.counts[index],
                "mean": mean_picture(means.classes[index]),
                "accuracy": value_text(right.value, "share") if right else "",
                "flags": flags.count(index),
            }
        )
    return found


def shown_classes(means: MeanMaps) -> list[int]:
    """The classes with enough images for a mean map."""
    return [index for index, count in means.counts.items() if count >= FEWEST]


def patterns(content: Content) -> list[Pattern]:
    """The clusters that are shown: minorities first, then the largest."""
    chosen = sorted(content.findings.clusters, key=lambda one: (not one.minority, -one.size))[:MOST_CLUSTERS]
    return [
        Pattern(
            one, content.place_of(one.index), value_text(one.share, "share"), mean_picture(np.asarray(one.centre)),
            strip(content, one.members),
        )
        for one in chosen
    ]  # fmt: skip
