"""The tables of docs/results.md: order, bold and daggers, from results counted by hand."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.results.runs import Run
from benchmarks.results.tables import filled, level_cells, written

RUN = Run("steps", "model.onnx", "images", "a,b,c", "insertion", "folder")


def cell(value: float, p: float | None = None) -> dict[str, Any]:
    around = {"value": value, "low": value - 0.1, "high": value + 0.1, "count": 9}
    gap = None if p is None else {"value": value - 0.5, "low": value - 0.6, "high": value - 0.4, "count": 9}
    return {"found": around, "gap": gap, "p": p}


def results() -> dict[str, Any]:
    values = {
        "a": (cell(0.5), cell(0.2)),
        "b": (cell(0.75, 0.001), cell(0.25, 0.02)),  # x 4 = 0.004; x 2 = 0.04
        "c": (cell(0.375, 0.5), cell(0.125, 0.01)),  # x 1 = 0.5; x 3 = 0.03
    }
    return {
        "reference": "a",
        "metrics": [{"label": "insertion", "better": "higher"}, {"label": "deletion", "better": "lower"}],
        "methods": [
            {
                "label": name,
                "results": dict(zip(("insertion", "deletion"), cells, strict=True)),
                "cost": {"forwards": 1, "backwards": 0},
                "seconds": None,
            }
            for name, cells in values.items()
        ],
    }


def test_what_is_not_told_apart_is_corrected_over_the_whole_table():
    assert level_cells(results()) == {("c", "insertion")}


def test_a_table_by_hand():
    assert written(RUN, results()) == (
        "| method | insertion | deletion | minus `a` | passes | s |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| `b` | **0.750** (0.650 to 0.850) | 0.250 (0.150 to 0.350) | +0.250 (+0.150 to +0.350) | 1 F |  |\n"
        "| `a` | 0.500 (0.400 to 0.600) | 0.200 (0.100 to 0.300) |  | 1 F |  |\n"
        "| `c` | 0.375 † (0.275 to 0.475) | **0.125** (0.025 to 0.225) | -0.125 (-0.225 to -0.025) | 1 F |  |\n"
    )


def test_a_table_without_results_stays(tmp_path):
    (tmp_path / "steps.json").write_text(json.dumps(results()))
    page = "<!-- table steps -->\nold\n<!-- end -->\n<!-- table parts -->\nkept\n<!-- end -->\n"

    found = filled(page, tmp_path)
    assert "kept" in found
    assert "old" not in found
