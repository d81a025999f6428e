"""Renders comparison.html: a verdict, the worst pairs side by side, and all numbers, in one file without scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.findings.violations import Violation
from gradskip_onnx.findings.words import interval_text, tiles_of, title_of, value_text
from gradskip_onnx.output.html_page import content_policy, environment, shared_style

from .charts import similarity_chart
from .compare import Comparison
from .measures import MEASURES
from .pictures import OpenImage, PairPicture, draw_pair
from .summary import TILES, sentences, verdict

TEMPLATE, STYLE = "comparison.html", "comparison.css"
WORST = 12  # pairs with pictures
OPEN = 4  # of these are seen at once
MOST_BROKEN = 8  # rules of a policy
MOST_ROWS = 100  # of a table on the page; the Parquet file has all
SHORT = {"spearman": "rank correlation", "iou": "overlap", "ndcg": "ranking"}  # of the measures, beside pictures
BY_CLASS = ("flips", "spearman", "iou", "ndcg")


@dataclass(frozen=True, slots=True)
class ShownPair:
    """A pair on the page."""

    image: str
    explained: tuple[str, str]  # the class whose map is shown, by each
    said: tuple[str, str]  # the predicted class and its probability, by each
    label: str
    flipped: bool
    values: tuple[tuple[str, str], ...]
    picture: PairPicture | None


def render(
    compared: Comparison,
    names: tuple[str, str],
    *,
    violations: Sequence[Violation] | None = None,
    open_image: OpenImage | None = None,
    command: str = "",
) -> bytes:
    """The HTML of the page; `violations` is None without a policy. `names` stand for the two sides."""
    style = shared_style() + environment(__package__).get_template(STYLE).render()
    template = environment(__package__, shown=value_text, interval=interval_text).get_template(TEMPLATE)
    pairs = compared.pairs
    flips = np.flatnonzero(pairs.columns["flipped"] == 1)
    text: str = template.render(
        names=names,
        style=style,
        policy=content_policy(style),
        compared=compared,
        command=command,
        sides=[side_facts(audit) for audit in (compared.first, compared.second)],
        findings=compared.found.findings,
        found=verdict(compared, violations),
        most_broken=MOST_BROKEN,
        sentences=sentences(compared, names),
        tiles=[*tiles_of(compared.found, TILES)],
        title_of=title_of,
        by_class=_by_class(compared),
        by_class_names=BY_CLASS,
        label_of=compared.first.label_of,
        figure=similarity_chart(pairs),
        most_open=OPEN,
        worst=[shown(compared, at, open_image, draw=True) for at in worst(compared)],
        flips_rows=[shown(compared, int(at), None, draw=False) for at in flips[:MOST_ROWS]],
        flip_count=len(flips),
        shared=bool(pairs.same_target.all()),
        equal=bool(pairs.equal_maps.all()),
    )
    return text.encode("utf-8", "replace")  # names of files need not be UTF-8


def side_names(first: Audit, second: Audit) -> tuple[str, str]:
    """What the sides are called: their files, with what differs where the files do not."""
    keys: tuple[Callable[[Audit], str], ...] = (
        lambda audit: str(audit.facts["model"]["file"]),
        lambda audit: f"{audit.facts['model']['file']}, {audit.facts['method']}",
        lambda audit: f"{audit.facts['model']['file']}, {audit.facts['provider']}",
        lambda audit: f"{audit.facts['model']['file']}, {audit.facts['model']['sha256'][:8]}",
    )
    pairs = ((key(first), key(second)) for key in keys)
    return next((pair for pair in pairs if pair[0] != pair[1]), (f"A: {keys[0](first)}", f"B: {keys[0](second)}"))


def worst(compared: Comparison) -> list[int]:
    """Places of the pairs whose maps are the least alike, by rank correlation."""
    values = compared.pairs.columns[MEASURES[0].name]
    order = np.argsort(np.where(np.isnan(values), np.inf, values), kind="stable")
    return [int(at) for at in order[:WORST]]


def shown(compared: Comparison, at: int, open_image: OpenImage | None, *, draw: bool) -> ShownPair:
    """A pair in words, with its pictures if they are drawn."""
    pairs, audits = compared.pairs, (compared.first, compared.second)
    places = int(pairs.positions[0][at]), int(pairs.positions[1][at])
    rows = [_row(audit, place) for audit, place in zip(audits, places, strict=True)]
    named = [audit.label_of(row["target"]) for audit, row in zip(audits, rows, strict=True)]
    said = [f"{audit.label_of(row['predicted'])} {percent(row['predicted_probability'])}"
            for audit, row in zip(audits, rows, strict=True)]  # fmt: skip
    label = "" if rows[0]["label"] is None else compared.first.label_of(rows[0]["label"])
    known = {one.name: float(pairs.columns[one.name][at]) for one in MEASURES}
    values = tuple(
        (SHORT[one.name], value_text(None if np.isnan(known[one.name]) else known[one.name], one.unit))
        for one in MEASURES
    )
    picture = draw_pair(audits, places, pairs.images[at], open_image) if draw else None
    flipped = bool(pairs.columns["flipped"][at])
    return ShownPair(pairs.images[at], (named[0], named[1]), (said[0], said[1]), label, flipped, values, picture)


def side_facts(audit: Audit) -> list[tuple[str, str]]:
    """What a side is, in words."""
    facts = audit.facts
    options = ", ".join(f"{name} {value}" for name, value in sorted((facts.get("options") or {}).items()))
    return [
        ("file", str(facts["model"]["file"])),
        ("sha256", str(facts["model"]["sha256"])),
        ("method", f"{facts['method']}{f' ({options})' if options else ''}"),
        ("device", str(facts["provider"])),
    ]


def _row(audit: Audit, position: int) -> dict[str, Any]:
    table = audit.table
    at = int(np.searchsorted(table["position"].to_numpy(), position))
    columns = ("target", "predicted", "predicted_probability", "label")
    return {name: table[name][at].as_py() for name in columns}


def _by_class(compared: Comparison) -> list[tuple[int, list[Any]]]:
    """The classes and their findings, those whose maps are the least alike first."""
    columns = [compared.found.named(name).classes for name in BY_CLASS]
    order = {index: one.value for index, one in compared.found.named(MEASURES[0].name).classes.items()}
    indices = sorted(set().union(*columns), key=lambda index: (order.get(index, 2.0), index))
    return [(index, [column.get(index) for column in columns]) for index in indices[:MOST_ROWS]]


def percent(value: float | None) -> str:
    return "–" if value is None or np.isnan(value) else f"{value:.1%}"
