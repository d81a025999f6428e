"""The contents of results.csv, the table, and of results.json, everything."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gradskip_onnx.explanation.document import versions
from gradskip_onnx.metrics.statistics import Interval
from gradskip_onnx.output.csv_text import no_formula

from .cost import Price
from .evaluation import Evaluation, preparation
from .summary import Cell, Summary

FORMAT = 1
COLUMNS = (
    "method", "metric", "better", "value", "low", "high", "images", "excluded", "failed",
    "reference", "difference", "difference_low", "difference_high", "p",
)  # fmt: skip


def as_csv(summary: Summary) -> bytes:
    """The table as CSV, one line per method and metric."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for method in summary.methods:
        for column in summary.columns:
            cell = summary.cells[method, column.label]
            reference = summary.reference if cell.gap else ""
            row: list[object] = [no_formula(method), no_formula(column.label), column.better]
            row += [*_numbers(cell.found), _count(cell.found)]
            row += [cell.excluded, cell.failed, no_formula(reference), *_numbers(cell.gap), _digits(cell.p)]
            writer.writerow(row)
    return text.getvalue().encode()


def _numbers(found: Interval | None) -> tuple[str, str, str]:
    return ("", "", "") if found is None else (_digits(found.value), _digits(found.low), _digits(found.high))


def _count(found: Interval | None) -> int:
    return 0 if found is None else found.count


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def as_document(evaluation: Evaluation, summary: Summary, prices: Mapping[str, Price]) -> dict[str, Any]:
    """Settings, table, costs, curves and failures, ready for JSON."""
    explainer, dataset = evaluation.explainer, evaluation.dataset
    return {
        "format": FORMAT,
        "model": {"file": explainer.name, "sha256": explainer.sha256},
        "data": {"where": dataset.where, "layout": dataset.layout, "images": summary.images},
        "preprocess": preparation(explainer.preprocess),
        "target": evaluation.target,
        "score": evaluation.score,
        "reference": summary.reference,
        "methods": [_method(evaluation, summary, prices, at) for at in range(len(summary.methods))],
        "metrics": [asdict(column) for column in summary.columns],
        "curves": [
            {"measure": measure, "kind": kind, "method": method, "x": curve.x, "y": curve.y, "images": curve.count}
            for (measure, kind), many in summary.curves.items()
            for method, curve in many.items()
        ],
        "failures": [asdict(failure) for failure in summary.failures],
        "versions": versions(),
    }


def _method(evaluation: Evaluation, summary: Summary, prices: Mapping[str, Price], at: int) -> dict[str, Any]:
    label, choice = summary.methods[at], evaluation.methods[at]
    return {
        "label": label,
        "method": choice.row.name,
        "options": choice.settings,
        "cost": asdict(prices[label]),
        "seconds": summary.seconds.get(label),
        "results": {column.label: _cell(summary.cells[label, column.label]) for column in summary.columns},
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return asdict(cell)
