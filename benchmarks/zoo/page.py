"""The report as a Markdown page: counts, the matrix, and every refusal with its reason."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .families import FAMILIES
from .plan import FILES, File
from .post import POSTS

Results = Mapping[str, Mapping[str, Any]]

INTRO = """\
# The zoo

Small vision transformers with random weights, written by torch's exporters and by tools that change files afterwards.
Each file was explained from its bytes alone. "Explained" means: the logits are those of the file in ONNX Runtime, the
gradients at every block output are those of torch (of a fake-quantised torch twin for quantised files), and the map is
finite. Cells show how many files of a group were explained, and the largest difference of a gradient from torch's, in
units of the largest gradient of its block; below them stand the refusals.

This page is generated:

<!-- not run: hours, most of them of torch's exporters -->
```sh
python -m benchmarks.zoo build zoo-files
python -m benchmarks.zoo check zoo-files -o report.json
python -m benchmarks.zoo page report.json > docs/zoo.md
```
"""
BOUND = "hardware-specific"
SHOWN = 160  # characters of a reason


def render(report: Path) -> str:
    """The page of a report."""
    document = json.loads(report.read_text())
    results: Results = {name: result for name, result in document["results"].items() if name in FILES}
    parts = [
        INTRO,
        _summary(results, document["not_built"]),
        "## Family by exporter\n\n" + _table("family", _by_exporter(results)),
        "## Family by post-processing\n\n" + _table("post-processing", _by_post(results)),
        "## Not explained\n\n" + _reasons(results),
        "## Not built\n\n" + _failures(document["not_built"]),
    ]
    return "\n".join(parts)


def _summary(results: Results, missing: Mapping[str, str]) -> str:
    counts = Counter(result["outcome"] for result in results.values())
    free = [result for result in results.values() if result["code"] != BOUND]
    shares = [f"{counts['explained'] / max(count, 1):.1%}" for count in (len(results), len(free))]
    words = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("explained", "refused", "wrong", "crashed"))
    return (
        f"{len(results)} files: {words}. {len(missing)} more could not be built.\n"
        f"{shares[0]} are explained; {shares[1]} of those not bound to one machine (`{BOUND}`).\n"
    )


Cells = dict[str, dict[str, list[Mapping[str, Any]]]]  # row -> column -> results


def _grouped(entries: Iterable[tuple[str, str, Mapping[str, Any]]]) -> Cells:
    cells: Cells = defaultdict(lambda: defaultdict(list))
    for row, column, result in entries:
        cells[row][column].append(result)
    return cells


def _by_exporter(results: Results) -> Cells:
    order = {name: place for place, name in enumerate(FAMILIES)}
    plain = [(FILES[name], result) for name, result in results.items() if not FILES[name].post]
    plain.sort(key=lambda pair: (order[pair[0].family], _column(pair[0])))
    return _grouped((file.family, _column(file), result) for file, result in plain)


def _column(file: File) -> str:
    """Exporter and way of attention; opsets and free sizes are counted together."""
    return " ".join(file.form.name.replace(str(file.form.opset), "").split("-")[:2])


def _by_post(results: Results) -> Cells:
    order = {name: place for place, name in enumerate(POSTS)}
    changed = [(FILES[name], result) for name, result in results.items() if FILES[name].post]
    changed.sort(key=lambda pair: (order[str(pair[0].post)], pair[0].family))
    return _grouped((str(file.post), file.family, result) for file, result in changed)


def _table(corner: str, cells: Cells) -> str:
    columns = sorted({column for row in cells.values() for column in row})
    lines = [_line([corner, *columns]), _line(["---"] * (len(columns) + 1))]
    lines += [_line([row, *(_cell(found.get(column, [])) for column in columns)]) for row, found in cells.items()]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(results: Sequence[Mapping[str, Any]]) -> str:
    """Explained of all and the largest difference, then what happened to the others."""
    if not results:
        return ""
    explained = [result for result in results if result["outcome"] == "explained"]
    words = [f"{len(explained)}/{len(results)}"]
    words += [f"{max(result['measured']['gradients'] for result in explained):.0e}"] if explained else []
    others = sorted({result["code"] or result["outcome"] for result in results if result["outcome"] != "explained"})
    return " ".join([*words, *(re.sub(r":.*", "", other) for other in others)])


def _reasons(results: Results) -> str:
    """One line a file; the reason in its own words, without the characters a table would take for its own."""
    rows = [
        _line([name, result["outcome"], re.sub(r":.*", "", result["code"]), _short(_reason(result))])
        for name, result in sorted(results.items())
        if result["outcome"] != "explained"
    ]
    head = [_line(["file", "outcome", "code", "reason"]), _line(["---"] * 4)]
    return "\n".join([*head, *rows] if rows else ["Nothing."]) + "\n"


def _reason(result: Mapping[str, Any]) -> str:
    return str(result["code"] if result["outcome"] == "crashed" else result["detail"])


def _failures(missing: Mapping[str, str]) -> str:
    rows = [_line([name, _short(reason)]) for name, reason in sorted(missing.items())]
    head = [_line(["file", "reason"]), _line(["---"] * 2)]
    return "\n".join([*head, *rows] if rows else ["Nothing."]) + "\n"


def _short(text: str) -> str:
    clean = re.sub(r"\x1b\[[0-9;]*m", "", text).replace("|", "/").replace("\n", " ")
    return clean if len(clean) <= SHOWN else clean[: SHOWN - 1] + "…"
