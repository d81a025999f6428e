"""Prints what the rows of an audit say in a few lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradskip_onnx.audit.reading import Audit

    from .console import Terminal

SHOWN = 5  # failures that are printed one by one


def print_summary(audit: Audit, terminal: Terminal) -> dict[str, Any]:
    """Print the numbers of an audit, and return them."""
    found = summary(audit)
    failed, explained = found["failed"], found["explained"]
    print_failures(audit, terminal)
    terminal.print(f"images    {found['images']}: {explained} explained, {failed} failed")
    if found["labelled"]:
        terminal.print(f"right     {found['correct']} of {found['labelled']} labelled images")
    if explained:
        terminal.print(f"checked   {found['passed']} of {explained} maps name what the model needs")
        terminal.print(f"doubtful  {found['abstained']}, each with its reason in the column `abstained`")
        terminal.print(f"proof     logits of the file and of its instrumented copy differ by at most "
                       f"{found['logits_difference']:.3g}")  # fmt: skip
    terminal.print(f"results   {audit.place.name}", style="bold")
    return found


def print_failures(audit: Audit, terminal: Terminal, known: Set[str] = frozenset()) -> set[str]:
    """Print why the first images failed that are not known to have, and return the names of all that failed."""
    table = audit.table
    rows = table.filter(table["error"].is_valid()).select(["image", "error"]).to_pylist()
    for row in [row for row in rows if row["image"] not in known][:SHOWN]:
        terminal.failed(row["error"] if row["image"] in row["error"] else f"{row['image']}: {row['error']}")
    return {row["image"] for row in rows}


def summary(audit: Audit) -> dict[str, Any]:
    """Counts over all images."""
    columns = {name: audit.table[name].to_pylist() for name in SUMMARISED}
    explained = [error is None for error in columns["error"]]
    right = Counter(columns["correct"])
    return {
        "folder": audit.place.name,
        "images": len(explained),
        "explained": sum(explained),
        "failed": len(explained) - sum(explained),
        "labelled": right[True] + right[False],
        "correct": right[True],
        "passed": sum(passed is True for passed in columns["check_passed"]),
        "abstained": sum(reason is not None for reason in columns["abstained"]),
        "logits_difference": max((each for each in columns["logits_difference"] if each is not None), default=None),
    }


SUMMARISED = ("error", "correct", "check_passed", "abstained", "logits_difference")
