"""The counts of a run, for the terminal and for docs/reliability.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from .judge import FAULTS, WATCHED
from .kinds import KINDS

Counts = dict[str, Counter[str]]  # kind -> outcome -> cases

BEGIN, END = "<!-- fuzz: begin -->", "<!-- fuzz: end -->"
CLASSES = tuple(dict.fromkeys(("ok", "refused", *FAULTS, *WATCHED)))

WORDS = {
    "ok": "answered",
    "refused": "refused in one line with its exit code",
    "traceback": "an exception that nobody caught",
    "exit 1": "an exit code that is not documented for bad input",
    "memory": "more than 2 GB beyond what the process held before",
    "escapes": "characters that steer a terminal",
    "noise": "lines of ONNX Runtime or Python on standard error",
    "message": "not exactly one error line",
    "map-for-refused": "a map for a file that ONNX Runtime refuses",
    "not-finite": "NaN or infinity in a map",
    "hash-same": "other weights, the same hash in the answer",
    "equal-refused": "an equivalent file, or one with a damaged cache entry, is refused",
    "map-differs": "an equivalent file, or one with a damaged cache entry, gets another map or other logits",
    "hang": "no answer within the time limit",
    "crash": "the process died",
}


def count(records: Iterable[Mapping[str, Any]]) -> Counts:
    """Cases by kind and outcome."""
    counts: Counts = defaultdict(Counter)
    for record in records:
        counts[record["kind"]][record["outcome"]] += 1
    return counts


def render(records: Iterable[Mapping[str, Any]]) -> str:
    """The table of a run with its command, seed, and an example of each fault, as Markdown."""
    records = list(records)
    counts = count(records)
    kinds = [kind for kind in KINDS if kind in counts]
    seeds = ", ".join(str(seed) for seed in sorted({record["seed"] for record in records}))
    models = counts["models"].total() if "models" in counts else 0
    rows = [_line([name, WORDS.get(name, ""), *(str(counts[kind][name]) for kind in kinds)]) for name in _names(counts)]
    total = _line(["all", "", *(str(counts[kind].total()) for kind in kinds)])
    return "\n".join([
        f"`python -m benchmarks.fuzz --count {models} --seed {seeds} -o fuzz-out`", "",
        _line(["outcome", "meaning", *kinds]), _line(["---", "---", *("---:" for _ in kinds)]), *rows, total, "",
        *_examples(records),
    ])  # fmt: skip


def _names(counts: Counts) -> list[str]:
    seen = {name for outcomes in counts.values() for name in outcomes}
    return [*CLASSES, *sorted(seen - set(CLASSES))]


def _examples(records: list[Mapping[str, Any]]) -> list[str]:
    first: dict[str, Mapping[str, Any]] = {}
    for record in records:
        if "error" in record:
            first.setdefault(record["outcome"], record)
    if not first:
        return ["No faults."]
    return ["An example of each fault (`--case` repeats it):", "", *(
        f"- {name}: `{record['kind']}:{record['number']}`, {record.get('row', '')}" for name, record in first.items()
    )]  # fmt: skip


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def put_into(page: str, table: str) -> str:
    """The page with the table between its marks; a page without marks gets them at its end."""
    block = f"{BEGIN}\n{table}\n{END}"
    if BEGIN not in page or END not in page:
        return f"{page.rstrip()}\n\n{block}\n" if page.strip() else f"# Reliability\n\n{block}\n"
    head, _, rest = page.partition(BEGIN)
    return head + block + rest.partition(END)[2]
