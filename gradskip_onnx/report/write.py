"""Writes the report of a finished audit: report.html, report.json and model-card.md."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.explanation.document import versions
from gradskip_onnx.findings.found import Findings
from gradskip_onnx.findings.violations import Violation
from gradskip_onnx.output.json_text import encode_json

from .content import Content, OpenImage
from .document import document
from .mean_maps import mean_maps
from .model_card import model_card
from .page import render

PAGE, DOCUMENT, CARD = "report.html", "report.json", "model-card.md"


def write_report(
    audit: Audit,
    findings: Findings,
    violations: Sequence[Violation] | None = None,
    open_image: OpenImage | None = None,
) -> tuple[str, ...]:
    """Write the files into the folder of the audit, and return their names.

    `violations` are those of a policy, None without one. `open_image` gives an image by its id; without it, and for an
    audit in privacy mode, maps are shown alone.
    """
    content = Content(audit, findings, violations, None if audit.facts["privacy"] else open_image)
    means, now = mean_maps(audit), datetime.now(UTC)
    date = f"{now.day} {now:%B %Y}"
    made = ", ".join(f"{name} {version}" for name, version in versions().items())
    audit.place.write(PAGE, render(content, means, date, made))
    audit.place.write(DOCUMENT, encode_json(document(content, means, now.date().isoformat())))
    audit.place.write(CARD, model_card(content, date))
    return PAGE, DOCUMENT, CARD
