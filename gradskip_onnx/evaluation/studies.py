"""The paper's studies: one option varied, or the heads split by how focused they are, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from gradskip_onnx.errors import InputError
from gradskip_onnx.methods import MethodChoice, choose_method
from gradskip_onnx.methods.gradskip.quartiles import FOCUS, QUARTERS
from gradskip_onnx.metrics import Choice, Metric
from gradskip_onnx.metrics.statistics import Significance, anova, friedman, spearman, wilcoxon
from gradskip_onnx.metrics.table import first
from gradskip_onnx.types import Array

from .chart import Chart, chart
from .choices import measurement_of
from .evaluate import Findings, Report
from .gather import Curve
from .page import Note

HEADS = "heads"


@dataclass(frozen=True, slots=True)
class Study:
    """One row: the methods that a base method becomes, and what their results say together."""

    name: str
    summary: str
    values: tuple[str, ...]  # what is compared, unless the user says otherwise
    methods: Callable[[MethodChoice, Sequence[str]], tuple[MethodChoice, ...]]
    findings: Callable[[Report, MethodChoice, Sequence[str]], Findings]


def with_option(base: MethodChoice, **changed: Any) -> MethodChoice:
    """The base method with options replaced."""
    known = [each.name for each in fields(base.options)]
    missing = [name for name in changed if name not in known]
    if missing:
        raise InputError(f"method {base.row.name} has no option {missing[0]!r} to study; it has: {', '.join(known)}")
    return choose_method(base.row.name, **{**base.settings, **changed})


def per_image(report: Report, choice: Choice[Metric], methods: Sequence[MethodChoice]) -> tuple[Array, Array]:
    """(methods, images) values of a metric and how focused the heads used were, where every method has a value."""
    label = measurement_of(choice, (*report.evaluation.alone, *report.evaluation.together)).label
    gathered = [report.everything[method.label, label] for method in methods]
    kept = [
        place
        for place in gathered[0].results
        if all(place in each.results and not each.results[place].excluded for each in gathered)
    ]
    values = [[choice.row.value(each.results[place]) for place in kept] for each in gathered]
    focus = [[each.checks[place].get("focus", np.nan) for place in kept] for each in gathered]
    return np.array(values, np.float64), np.array(focus, np.float64)


def studied(report: Report) -> list[Choice[Metric]]:
    """Metrics that every image has by itself: tests are made on images."""
    return [choice for choice in report.evaluation.columns if choice.row.finish is first]


def tested(name: str, test: Callable[[], Significance]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """A test as a row and as a document; where it cannot be made, why."""
    try:
        found = test()
    except InputError as error:
        return (name, "–", str(error)), {"test": name, "reason": str(error)}
    return (name, f"{found.statistic:+.4f}", f"{found.p:.3g}"), {"test": name, **asdict(found)}


def _sweep(option: str, summary: str, values: tuple[str, ...]) -> Study:
    """A study of one number of a method."""

    def methods(base: MethodChoice, chosen: Sequence[str]) -> tuple[MethodChoice, ...]:
        made = {choice.label: choice for choice in (with_option(base, **{option: _number(each)}) for each in chosen)}
        return tuple(made.values())

    def findings(report: Report, base: MethodChoice, chosen: Sequence[str]) -> Findings:
        made = methods(base, chosen)
        places = np.array([getattr(choice.options, option) for choice in made])
        order = np.argsort(places)
        rows, charts, documents = [], [], []
        for metric in studied(report):
            values, _ = per_image(report, metric, made)
            means = values.mean(axis=1) if values.size else np.full(len(made), np.nan)
            best = int((np.argmax if metric.row.better == "higher" else np.argmin)(means)) if values.size else 0
            row, document = tested("Friedman", lambda values=values: friedman(list(values)))  # type: ignore[misc]
            rows.append((metric.label, f"{places[best]:g}", f"{means[best]:.3f}", *row[1:]))
            documents.append({"metric": metric.label, "values": places, "means": means, **document})
            if values.size:
                charts.append(_drawn(metric.label, option, Curve(places[order], means[order], values.shape[1])))
        head = ("metric", f"best {option}", "its mean", "Friedman's χ²", "p")
        note = Note(
            f"Does {option} matter?", "Friedman's test compares the values on the same images.", head, tuple(rows)
        )
        return Findings((note,), tuple(charts), {"study": {"option": option, "results": documents}})

    return Study(option, summary, values, methods, findings)


def _drawn(metric: str, option: str, curve: Curve) -> Chart:
    titled = chart("", option, {metric: curve}, (metric,))
    return replace(titled, title=f"{metric} by {option}", x_title=option, y_title="mean over images")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"value {text!r}: a number is expected") from None


def _quarters(base: MethodChoice, chosen: Sequence[str]) -> tuple[MethodChoice, ...]:
    unknown = [each for each in chosen if each not in FOCUS]
    if unknown:
        raise InputError(f"value {unknown[0]!r}: heads can be ranked by {', '.join(FOCUS)}")
    groups = [with_option(base, heads=each, focus=by) for by in chosen for each in QUARTERS]
    return (with_option(base, heads="all"), *groups)


def _quarter_findings(report: Report, base: MethodChoice, chosen: Sequence[str]) -> Findings:
    whole, *groups = _quarters(base, chosen)
    notes, documents = [], []
    for metric in studied(report):
        for at, by in enumerate(chosen):
            mine = groups[at * len(QUARTERS) : (at + 1) * len(QUARTERS)]
            values, focus = per_image(report, metric, [whole, *mine])
            note, document = _quarter_note(metric.label, by, values[1:] - values[:1], values[1:], focus[1:])
            notes += note
            documents.append(document)
    return Findings(tuple(notes), (), {"study": {"option": HEADS, "results": documents}})


def _quarter_note(
    metric: str, by: str, gains: Array, values: Array, focus: Array
) -> tuple[list[Note], Mapping[str, Any]]:
    """Increments over all heads by quarter, and the paper's tests; (quarters, images) each."""
    images = values.shape[1] if values.ndim == 2 else 0
    spread = gains.std(axis=1, ddof=1) if images > 1 else np.full(len(QUARTERS), np.nan)
    means = gains.mean(axis=1) if images else np.full(len(QUARTERS), np.nan)
    rows = tuple(
        (f"{quarter} %", f"{values[at].mean():.4f}", f"{means[at]:+.4f}", f"{spread[at]:.4f}")
        for at, quarter in enumerate(QUARTERS)
        if images
    )
    found = [
        tested("Spearman, focus and value", lambda: spearman(focus.reshape(-1), values.reshape(-1))),
        tested("ANOVA, four quarters", lambda: anova(list(values))),
        tested("Friedman, the same images", lambda: friedman(list(values))),
        tested("Wilcoxon, first and last quarter", lambda: wilcoxon(values[0], values[-1])),
    ]
    text = f"Heads of each block ranked by {by}, the most focused first; {images} images, increments over all heads."
    tables = [
        Note(f"{metric}: quarters by {by}", text, ("heads", "mean", "increment", "std"), rows),
        Note(f"{metric}: tests, {by}", "", ("test", "statistic", "p"), tuple(row for row, _ in found)),
    ]
    document = {
        "metric": metric,
        "focus": by,
        "images": images,
        "quarters": {
            quarter: {"increment": means[at], "std": spread[at], "focus": focus[at].mean() if images else None}
            for at, quarter in enumerate(QUARTERS)
        },
        "tests": [each for _, each in found],
    }
    return tables, document


_ROWS = (
    _sweep(
        "gamma", "heads below this share of the strongest flow are dropped", ("0", "0.1", "0.25", "0.5", "0.75", "1")
    ),
    _sweep("alpha", "share of gradient flow in the head weights", ("0", "0.25", "0.5", "0.75", "1")),
    Study(HEADS, "quarters of the heads by sparsity", tuple(FOCUS), _quarters, _quarter_findings),
)
STUDIES: dict[str, Study] = {row.name: row for row in _ROWS}
