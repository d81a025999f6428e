"""results.json of each run as the tables of docs/results.md; the words between them are written by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradskip_onnx.metrics.statistics import LEVEL, holm

from .runs import RUNS, Run

MARKED = re.compile(r"(<!-- table ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
DAGGER = " †"
KEPT = "{}.json"  # beside the folders of the runs: a later run into the same folder writes results.json anew


def filled(page: str, folder: Path) -> str:
    """The page with every marked table written anew from the results in `folder`; a table without results stays."""
    runs = {run.name: run for run in RUNS}

    def table(found: re.Match[str]) -> str:
        results = folder / KEPT.format(found[2])
        return (
            found[1] + written(runs[found[2]], json.loads(results.read_text())) + found[3]
            if results.exists()
            else found[0]
        )

    return MARKED.sub(table, page)


def written(run: Run, results: Mapping[str, Any]) -> str:
    """One table; the best value of a column is bold, one that is not told apart from the reference has a dagger."""
    columns = results["metrics"]
    counted = run.metrics == "gflops"
    against = [] if counted else [f"minus `{results['reference']}`"]  # in the first metric, on the same images
    heads = [
        "method",
        *([] if counted else [column["label"] for column in columns]),
        *against,
        "passes",
        "GFLOPs" * counted or "s",
    ]
    best, level = _best(results), level_cells(results)
    rows = [_row(method, columns, best, level, counted) for method in _sorted(results, counted)]
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _sorted(results: Mapping[str, Any], counted: bool) -> list[Mapping[str, Any]]:
    """By the first metric, the best first; by cost where nothing else was measured."""
    if counted:
        return sorted(results["methods"], key=lambda method: method["cost"]["giga"])
    first = results["metrics"][0]
    values = [(value, method) for method in results["methods"] if (value := _value(method, first["label"])) is not None]
    ordered = sorted(values, key=lambda pair: pair[0], reverse=first["better"] == "higher")
    return [method for _, method in ordered]


def _value(method: Mapping[str, Any], metric: str) -> float | None:
    found = method["results"][metric]["found"]
    return None if found is None else found["value"]


def _best(results: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for column in results["metrics"]:
        values = [value for method in results["methods"] if (value := _value(method, column["label"])) is not None]
        if values:
            found[column["label"]] = (max if column["better"] == "higher" else min)(values)
    return found


def level_cells(results: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Where the reference is not told apart, as (method, metric): p corrected for all comparisons is 0.05 or more.

    It is corrected here, because results of earlier versions have no corrected p.
    """
    tested = {
        (method["label"], metric): cell["p"]
        for method in results["methods"]
        for metric, cell in method["results"].items()
        if cell["p"] is not None
    }
    found = zip(tested, holm(list(tested.values())), strict=True)
    return frozenset(place for place, p in found if p >= LEVEL)


def _gap(found: Mapping[str, float] | None) -> str:
    return "" if found is None else f"{found['value']:+.3f} ({found['low']:+.3f} to {found['high']:+.3f})"


def _row(
    method: Mapping[str, Any],
    columns: list[Mapping[str, Any]],
    best: Mapping[str, float],
    level: frozenset[tuple[str, str]],
    counted: bool,
) -> list[str]:
    cost = method["cost"]
    passes = f"{cost['forwards']} F" + (f" + {cost['backwards']} B" if cost["backwards"] else "")
    if counted:
        return [f"`{method['label']}`", passes, f"{cost['giga']:.2f}"]
    cells = []
    for column in columns:
        found = method["results"][column["label"]]["found"]
        if found is None:
            cells.append("")
            continue
        text = f"{found['value']:.3f}"
        text = f"**{text}**" if found["value"] == best[column["label"]] else text
        dagger = DAGGER if (method["label"], column["label"]) in level else ""
        cells.append(f"{text}{dagger} ({found['low']:.3f} to {found['high']:.3f})")
    cells.append(_gap(method["results"][columns[0]["label"]]["gap"]))
    seconds = method["seconds"]
    return [f"`{method['label']}`", *cells, passes, "" if seconds is None else f"{seconds:.2f}"]
