"""Renders report.html: one file that loads nothing, runs its own script only, and has a bounded size."""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from gradskip_onnx.findings.words import count_text, value_text
from gradskip_onnx.output.html_page import content_policy, environment, shared_style

from .cards import cards, gallery_cards, orders
from .content import Content, column
from .mean_maps import MeanMaps
from .pictures import LARGE, mean_picture
from .sections import charted, classes, drift_rows, flagged, histograms, overview, patterns, shown_classes
from .settings import settings
from .summary import sentences, stand_outs, tiles, verdict
from .worst import worst_cases

TEMPLATE, STYLE, SCRIPT = "page.html", "page.css", "page.js"
MOST_BROKEN, MOST_FLAGGED, MOST_RAISED, MOST_CLASSES, MOST_CHARTS = 8, 12, 5, 60, 6
CONTENTS = (
    ("summary", "Summary"),
    ("stands-out", "What stands out"),
    ("findings", "Findings"),
    ("classes", "Classes"),
    ("patterns", "Patterns"),
    ("worst", "Worst cases"),
    ("images", "Images"),
    ("method", "Method and limits"),
    ("verify", "Check it yourself"),
)


def render(content: Content, means: MeanMaps, date: str, versions: str) -> bytes:
    """The HTML of the page; jinja2 escapes every text."""
    style, script = "\n".join([shared_style(), _text(STYLE)]), _text(SCRIPT)
    flags, shown = stand_outs(content), gallery_cards(content)
    template = environment(__package__, percent=percent).get_template(TEMPLATE)
    text: str = template.render(
        policy=content_policy(style, script),
        style=style,
        script=script,
        title=f"Audit of {content.facts['model']['file']}",
        contents=CONTENTS,
        facts=content.facts,
        data=content.data,
        findings=content.findings,
        date=date,
        versions=versions,
        count=count,
        verdict=verdict(content),
        most_broken=MOST_BROKEN,
        sentences=sentences(content),
        tiles=[*tiles(content)],
        mean=mean_picture(means.overall) if means.counts else None,
        stands_out=[flagged(content, means, one) for one in flags[:MOST_FLAGGED]],
        flags_left=max(0, len(flags) - MOST_FLAGGED),
        found=[overview(finding) for finding in content.findings.findings if finding.overall is not None],
        histograms=[*histograms(content)],
        charted=charted(content),
        most_charts=MOST_CHARTS,
        most_raised=MOST_RAISED,
        drift=[*drift_rows(content)],
        baseline=content.findings.baseline,
        classes=classes(content, means, MOST_CLASSES),
        classes_left=len(means.classes) - min(MOST_CLASSES, len(shown_classes(means))),
        clusters=patterns(content),
        worst=[(kind, cards(content, chosen, LARGE)) for kind, chosen in worst_cases(content.audit)],
        gallery=shown,
        gallery_classes=sorted({card.facts.explained for card in shown}),
        orders=orders(shown),
        no_images=content.open_image is None,
        settings=settings(content),
        fill=str(content.facts["check"].get("fill", "a plain colour")),
        logits=largest_difference(content),
    )
    return text.encode("utf-8", "backslashreplace")


def count(number: int, what: str, several: str | None = None) -> str:
    """1 class, 2 classes."""
    return f"{number:,} {several}" if several and number != 1 else count_text(number, what)


def percent(value: float) -> str:
    return value_text(value, "share")


def largest_difference(content: Content) -> str | None:
    """By how much the logits of the instrumented model differ from those of the file at most."""
    found = column(content.audit, "logits_difference")
    known = found[~np.isnan(found)]
    return f"{known.max():.2g}" if len(known) else None


def _text(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
