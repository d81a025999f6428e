"""The page on metrics names every metric, option, protocol, rule and substrate there is, and no passes that are not."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from gradskip_onnx.evaluation import EVERY_METRIC
from gradskip_onnx.evaluation.metric_kinds import GroupMetric
from gradskip_onnx.metrics import METRICS
from gradskip_onnx.metrics.insertion_deletion import SUBSTRATE_NAMES
from gradskip_onnx.metrics.protocols import PROTOCOLS
from gradskip_onnx.metrics.segmentation import RULES

PAGE = (Path(__file__).parent.parent.parent / "docs" / "metrics.md").read_text(encoding="utf-8")
ROWS = {
    match[1]: [cell.strip() for cell in re.split(r"(?<!\\)\|", match[0])[1:-1]]
    for match in re.finditer(r"^\| `([\w-]+)` \|.*\|$", PAGE.split("## The table")[1].split("\n## ")[0], re.MULTILINE)
}


def test_every_metric_has_its_row_and_no_other():
    assert set(ROWS) == set(METRICS)


@pytest.mark.parametrize("name", METRICS)
def test_row_says_what_the_code_says(name: str):
    row, (_, _, span, passes, needs, _) = METRICS[name], ROWS[name]

    assert span == f"{row.span[0]:g} to {row.span[1]:g}, {row.better}"
    assert passes.split(",")[0] == str(row.passes(row.options()))
    assert needs == " or ".join(row.needs)


def test_every_check_has_its_row_and_options():
    section = PAGE.split("## Checks a map must pass")[1].split("\n## ")[0]
    rows = {match[1]: match[0] for match in re.finditer(r"^\| `([\w-]+)` \|.*\|$", section, re.MULTILINE)}
    checks = {name: row for name, row in EVERY_METRIC.items() if isinstance(row, GroupMetric)}

    assert set(rows) == set(checks)
    for name, row in checks.items():
        assert f"| {row.span[0]:g} to {row.span[1]:g}, {row.better} |" in rows[name]
        assert f"| {', '.join(f'`{field.name}`' for field in fields(row.options))} |" in rows[name]


def test_options_and_choices_are_named():
    options = {field.name for row in METRICS.values() for field in fields(row.options)}
    names = options | set(PROTOCOLS) | set(RULES) | set(SUBSTRATE_NAMES)

    assert [name for name in sorted(names) if f"`{name}`" not in PAGE] == []
