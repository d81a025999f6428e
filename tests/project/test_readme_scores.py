"""The scores on the first page are those of docs/results.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
# Words of the first page -> columns of docs/results.md.
COLUMNS = {
    "Insertion-Deletion, mean": "insertion-deletion[substrate=mean,steps=14]",
    "Insertion-Deletion, black": "insertion-deletion[substrate=black,steps=14]",
    "Insertion-Deletion, random": "insertion-deletion[substrate=random,steps=14]",
    "energy in the boxes": "pointing-energy[largest=0.6]",
    "strongest pixel in a box": "pointing-game[largest=0.6]",
    "strongest pixel on the object": "pointing-game",
}


def rows(text: str) -> list[dict[str, str]]:
    """The rows of the first Markdown table of a text, by the heading of each column."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return [dict(zip(lines[0], line, strict=False)) for line in lines[2:]]


def results(table: str) -> dict[str, dict[str, str]]:
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    return {row["method"]: row for row in rows(text.split(f"<!-- table {table} -->")[1].split("<!-- end -->")[0])}


SHOWN = rows((ROOT / "README.md").read_text(encoding="utf-8").split("<!-- scores -->\n")[1].split("\n\n")[0])


@pytest.mark.parametrize("row", SHOWN, ids=lambda row: f"{row['table']} {row['column']}")
def test_scores_of_the_first_page(row: dict[str, str]):
    there = results(row["table"])
    methods = [name for name in row if name.startswith("`")]
    expected = {name: there[name][COLUMNS[row["column"]]] for name in methods}

    assert len(methods) == 5
    assert {name: row[name].strip("*") for name in methods} == {
        name: re.findall(r"-?\d\.\d{3}", text)[0] for name, text in expected.items()
    }


def test_the_best_of_all_methods_is_named():
    """A method that beats all of those shown would have to be shown."""
    for row in SHOWN:
        column = COLUMNS[row["column"]]
        (best,) = [name for name, found in results(row["table"]).items() if "**" in found[column]]
        assert "**" in row[best], row
