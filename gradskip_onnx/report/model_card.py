"""model-card.md: a section that can be pasted into the card of a model; every foreign text is escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradskip_onnx.findings.words import interval_text, title_of, value_text
from gradskip_onnx.output.html_page import visible

from .content import Content
from .settings import settings
from .summary import sentences, stand_outs, verdict

MOST = 12  # classes that stand out
LIMITS = (
    "A map says where the evidence lies, and not what about it counts. What is said holds for the images above; "
    "intervals of 95 % take them for a random sample."
)


def model_card(content: Content, date: str) -> bytes:
    """The section: verdict, sentences, a table of findings, what stands out, settings and limits."""
    found = verdict(content)
    parts = [
        "## What the model looks at",
        f"**{found.title}.** {escaped(found.text)}",
        *(["\n".join(f"- {escaped(text)}" for text in found.broken)] if found.broken else []),
        "\n".join(f"- {escaped(text)}" for text in sentences(content)),
        _table(["finding", "value", "interval of 95 %", "images"], _findings(content)),
        *_stands_out(content),
        _table(["setting", "value"], [[name, escaped(text)] for name, text in settings(content)]),
        escaped(LIMITS),
        f"Made on {date}; model SHA-256 `{_hash(content)}`. The page is report.html, the evidence manifest.json.",
    ]
    return ("\n\n".join(parts) + "\n").encode("utf-8", "backslashreplace")


def escaped(text: str) -> str:
    """A text that Markdown and HTML show as it is, on one line."""
    flat = " ".join(visible(text).split())
    plain = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    plain = re.sub(r"([\\`*_{}\[\]()#!|~$])", r"\\\1", plain)
    # an address would become a link, and the start of a line a list, a heading or a quotation
    plain = re.sub(r"(?i)(https?|ftp|mailto|www)([:.])", r"\1<!-- -->\2", plain)
    return re.sub(r"^([-+=]|\d+[.)])", r"\\\1", plain).replace("@", "<!-- -->@")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _findings(content: Content) -> list[list[str]]:
    return [
        [escaped(title_of(one.name)), value_text(one.overall.value, one.unit), interval_text(one.overall, one.unit),
         str(one.overall.count)]
        for one in content.findings.findings
        if one.overall is not None
    ]  # fmt: skip


def _stands_out(content: Content) -> list[str]:
    lines = [
        f"- {escaped(one.where)}: "
        + "; ".join(escaped(f"{flag.title} {flag.value} ({flag.why})") for flag in one.flags)
        for one in stand_outs(content)[:MOST]
    ]
    return ["Stands out:", "\n".join(lines)] if lines else []


def _hash(content: Content) -> str:
    return re.sub(r"[^0-9a-f]", "", str(content.facts["model"]["sha256"]))
