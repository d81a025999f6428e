"""The tables that an evaluation prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from gradskip_onnx.errors import printable

if TYPE_CHECKING:
    from gradskip_onnx.evaluation import Note, Report
    from gradskip_onnx.evaluation.fit import Fit
    from gradskip_onnx.evaluation.summary import Cell, Column
    from gradskip_onnx.metrics.statistics import Interval

ARROWS = {"higher": "↑", "lower": "↓"}


def score_table(report: Report) -> Table:
    """One row per method: value and interval of each metric, the best in bold, then the cost of a map."""
    summary, prices = report.summary, report.prices
    counted = any(price.giga is not None for price in prices.values())
    best = {column.label: summary.best(column) for column in summary.columns}
    head = ["method", *map(_head, summary.columns), "passes", *(["GFLOPs"] if counted else []), "s / map"]
    table = _table(head)
    for method in summary.methods:
        price = prices[method]
        row = [Text(printable(method))]
        for column in summary.columns:
            leads = best[column.label] == method and len(summary.methods) > 1
            row.append(Text(_value(summary.cells[method, column.label]), style="bold" if leads else ""))
        row.append(Text(f"{price.forwards} + {price.backwards}"))
        row += [Text("–" if price.giga is None else f"{price.giga:,.2f}")] if counted else []
        seconds = summary.seconds.get(method)
        row.append(Text("–" if seconds is None else f"{seconds:.3f}"))
        table.add_row(*row)
    return table


def gap_table(report: Report) -> Table | None:
    """The difference of each method from the reference, on the same images; None if there is nothing to compare."""
    summary = report.summary
    others = [method for method in summary.methods if method != summary.reference]
    if not others or not summary.columns:
        return None
    table = _table([f"minus {summary.reference}", *map(_head, summary.columns)])
    for method in others:
        cells = [summary.cells[method, column.label] for column in summary.columns]
        table.add_row(Text(printable(method)), *(Text(_gap(cell)) for cell in cells))
    return table


def level_lines(report: Report) -> list[str]:
    """What the p-values of `gap_table` are, and in which metrics the reference is not told apart from which methods."""
    from gradskip_onnx.metrics.statistics import LEVEL

    summary = report.summary
    if not summary.comparisons:
        return []
    lines = [f"p         in parentheses corrected for {summary.comparisons} comparisons (Holm)"]
    for column in summary.columns:
        if names := summary.level(column):
            where = f"{column.label}: {summary.reference} is not told apart from {', '.join(names)}"
            lines.append(f"level     {where} (corrected p at or above {LEVEL})")
    return lines


def note_table(note: Note) -> Table | None:
    """The table of a note of a study; None for a note without rows."""
    if not note.rows:
        return None
    table = _table(note.head, title=note.title)
    for row in note.rows:
        table.add_row(*(Text(printable(value)) for value in row))
    return table


def fit_table(found: Fit) -> Table:
    """Default and fitted options on the held-out images, a row for each substrate."""
    table = _table(["insertion-deletion ↑", "default", "fitted", "fitted minus default"])
    for name, column in found.columns.items():
        cells = (_interval(column.default), _interval(column.fitted), _interval(column.gap, "+"))
        table.add_row(name, *map(Text, cells))
    return table


def _table(head: Iterable[str] | Sequence[str], title: str = "") -> Table:
    table = Table(title=title or None, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for at, name in enumerate(head):
        table.add_column(
            printable(name), justify="right" if at else "left", overflow="fold", header_style="dim", no_wrap=not at
        )
    return table


def _head(column: Column) -> str:
    return f"{column.label} {ARROWS[column.better]}"


def _value(cell: Cell) -> str:
    if cell.found is None:
        return "–"
    lost = f" ({cell.excluded + cell.failed} left out)" if cell.excluded or cell.failed else ""
    return f"{_interval(cell.found)}{lost}"


def _gap(cell: Cell) -> str:
    if cell.gap is None:
        return "–"
    sure = "" if cell.p is None or cell.corrected is None else f", p {_p(cell.p)} ({_p(cell.corrected, equals='')})"
    return f"{_interval(cell.gap, '+')}{sure}"


def _p(value: float, equals: str = "= ") -> str:
    return "< 0.001" if value < 0.001 else f"{equals}{value:.3f}"


def _interval(found: Interval, sign: str = "") -> str:
    return f"{found.value:{sign}.3f} [{found.low:{sign}.3f}, {found.high:{sign}.3f}]"
