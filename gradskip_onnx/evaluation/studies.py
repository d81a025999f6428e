"""The studies of the paper: one option varied, or heads grouped by how focused they are, with statistical tests."""

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
    """A row of the table: the variants of a base method to compare, and the findings from their results."""

    name: str
    summary: str
    values: tuple[str, ...]  # values compared by default
    methods: Callable[[MethodChoice, Sequence[str]], tuple[MethodChoice, ...]]
    findings: Callable[[Report, MethodChoice, Sequence[str]], Findings]


def with_option(base: MethodChoice, **changed: Any) -> MethodChoice:
    """The base method with options replaced; raises InputError for an option it does not have."""
    names = [field.name for field in fields(base.options)]
    missing = [name for name in changed if name not in names]
    if missing:
        raise InputError(f"method {base.row.name} has no option {missing[0]!r} to study; it has: {', '.join(names)}")
    return choose_method(base.row.name, **{**base.settings, **changed})


def per_image(report: Report, choice: Choice[Metric], methods: Sequence[MethodChoice]) -> tuple[Array, Array]:
    """Values of a metric and focus of the heads used, each (methods, images), for images where all methods have one."""
    evaluation = report.evaluation
    label = measurement_of(choice, (*evaluation.image_measurements, *evaluation.group_measurements)).label
    gathered = [report.everything[method.label, label] for method in methods]
    kept = [
        place
        for place in gathered[0].results
        if all(place in one.results and not one.results[place].excluded for one in gathered)
    ]
    values = [[choice.row.value(one.results[place]) for place in kept] for one in gathered]
    focus = [[one.checks[place].get("focus", np.nan) for place in kept] for one in gathered]
    return np.array(values, np.float64), np.array(focus, np.float64)


def studied(report: Report) -> list[Choice[Metric]]:
    """The metrics with a value per image, which the tests need."""
    return [choice for choice in report.evaluation.columns if choice.row.finish is first]


def tested(name: str, test: Callable[[], Significance]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The result of a test, or the reason why it cannot be made, as a table row and as a document."""
    try:
        found = test()
    except InputError as error:
        return (name, "–", str(error)), {"test": name, "reason": str(error)}
    return (name, f"{found.statistic:+.4f}", f"{found.p:.3g}"), {"test": name, **asdict(found)}


def _sweep(option: str, summary: str, values: tuple[str, ...]) -> Study:
    """A study that varies one numeric option of a method."""

    def methods(base: MethodChoice, chosen: Sequence[str]) -> tuple[MethodChoice, ...]:
        variants = [with_option(base, **{option: _number(text)}) for text in chosen]
        return tuple({variant.label: variant for variant in variants}.values())

    def findings(report: Report, base: MethodChoice, chosen: Sequence[str]) -> Findings:
        variants = methods(base, chosen)
        settings = np.array([getattr(variant.options, option) for variant in variants])
        order = np.argsort(settings)
        rows, charts, documents = [], [], []
        for metric in studied(report):
            values, _ = per_image(report, metric, variants)
            means = values.mean(axis=1) if values.size else np.full(len(variants), np.nan)
            best = int((np.argmax if metric.row.better == "higher" else np.argmin)(means)) if values.size else 0
            row, document = tested("Friedman", lambda values=values: friedman(list(values)))  # type: ignore[misc]
            rows.append((metric.label, f"{settings[best]:g}", f"{means[best]:.3f}", *row[1:]))
            documents.append({"metric": metric.label, "values": settings, "means": means, **document})
            if values.size:
                charts.append(_chart(metric.label, option, Curve(settings[order], means[order], values.shape[1])))
        head = ("metric", f"best {option}", "its mean", "Friedman's χ²", "p")
        note = Note(
            f"Does {option} matter?", "Friedman's test compares the values on the same images.", head, tuple(rows)
        )
        return Findings((note,), tuple(charts), {"study": {"option": option, "results": documents}})

    return Study(option, summary, values, methods, findings)


def _chart(metric: str, option: str, curve: Curve) -> Chart:
    drawn = chart("", option, {metric: curve}, (metric,))
    return replace(drawn, title=f"{metric} by {option}", x_title=option, y_title="mean over images")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"value {text!r}: a number is expected") from None


def _quarters(base: MethodChoice, chosen: Sequence[str]) -> tuple[MethodChoice, ...]:
    unknown = [by for by in chosen if by not in FOCUS]
    if unknown:
        raise InputError(f"value {unknown[0]!r}: heads can be ranked by {', '.join(FOCUS)}")
    groups = [with_option(base, heads=quarter, focus=by) for by in chosen for quarter in QUARTERS]
    return (with_option(base, heads="all"), *groups)


def _quarter_findings(report: Report, base: MethodChoice, chosen: Sequence[str]) -> Findings:
    whole, *groups = _quarters(base, chosen)
    notes, documents = [], []
    for metric in studied(report):
        for at, by in enumerate(chosen):
            quarters = groups[at * len(QUARTERS) : (at + 1) * len(QUARTERS)]
            values, focus = per_image(report, metric, [whole, *quarters])
            note, document = _quarter_note(metric.label, by, values[1:] - values[:1], values[1:], focus[1:])
            notes += note
            documents.append(document)
    return Findings(tuple(notes), (), {"study": {"option": HEADS, "results": documents}})


def _quarter_note(
    metric: str, by: str, gains: Array, values: Array, focus: Array
) -> tuple[list[Note], Mapping[str, Any]]:
    """Means and increments over all heads by quarter, and the tests of the paper; arrays are (quarters, images)."""
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
        "tests": [result for _, result in found],
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
