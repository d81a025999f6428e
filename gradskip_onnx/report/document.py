"""report.json: what the page says, for programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradskip_onnx.findings.documents import DIGITS, of_interval
from gradskip_onnx.findings.found import Finding

from .content import Content, facts_of
from .mean_maps import MeanMaps
from .page import largest_difference
from .summary import sentences, stand_outs, verdict
from .worst import gallery, worst_cases

FORMAT = 1
FACTS = (
    "model", "task", "classes", "grid", "image_size", "method", "options", "score", "check", "seed", "provider",
    "versions", "privacy",
)  # fmt: skip
STATES = {"good": "passes", "bad": "fails", "open": "not judged"}


def document(content: Content, means: MeanMaps, date: str) -> dict[str, Any]:
    """The document of a report; single numbers of all images are in the parts, those of findings in findings.json."""
    found = verdict(content)
    return {
        "format": FORMAT,
        "date": date,
        "audit": {name: content.facts.get(name) for name in FACTS},
        "data": {
            "address": content.data,
            **{name: content.facts["data"][name] for name in ("layout", "count", "list_sha256")},
        },
        "images": content.findings.images,
        "logits_difference": largest_difference(content),
        "verdict": {"state": STATES[found.tone], "text": found.text, "broken": list(found.broken)},
        "summary": sentences(content),
        "findings": {finding.name: _finding(finding) for finding in content.findings.findings},
        "stands_out": [
            {
                "class": one.index,
                "label": one.where,
                "flags": [{"finding": flag.finding.name, "why": flag.why} for flag in one.flags],
            }
            for one in stand_outs(content)
        ],
        "mean_map": np.round(means.overall, DIGITS),
        "classes": {
            str(index): {
                "label": content.audit.label_of(index),
                "images": means.counts[index],
                "mean_map": np.round(mean, DIGITS),
            }
            for index, mean in sorted(means.classes.items())
            if index >= 0
        },
        "worst": [
            {
                "kind": kind.title,
                "images": [
                    {"position": one.position, "image": one.image} for one in facts_of(content.audit, positions)
                ],
            }
            for kind, positions in worst_cases(content.audit)
        ],
        "gallery": gallery(content),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {"unit": finding.unit, "better": finding.better, "overall": of_interval(finding.overall)}
