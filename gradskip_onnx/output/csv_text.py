"""Encodes tables as CSV that a spreadsheet reads as text and numbers, and never as formulas."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence


def no_formula(text: str) -> str:
    """The text with a quote in front if a spreadsheet would read it as a formula."""
    return f"'{text}" if text[:1] in tuple("=+-@\t\r") else text


def encode_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A table as CSV: numbers with six digits, texts without formulas, None as nothing."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return text.getvalue().encode("utf-8", "backslashreplace")  # names of files may be no Unicode


def _cell(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.6g}"
    return no_formula(value) if isinstance(value, str) else value
