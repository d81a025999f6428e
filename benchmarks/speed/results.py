"""What was measured, kept as JSON: a run adds to what earlier ones of the same version and machine left."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .apart import Process
from .contenders import PLAIN
from .measure import Timing


@dataclass(frozen=True, slots=True)
class Result:
    """One model at one batch size, or one form of its file; `megabytes` are those of files."""

    model: str
    batch: int
    timings: dict[str, Timing]
    differences: dict[str, float] = field(default_factory=dict)  # of maps from ours, as a share of their maximum
    missing: dict[str, str] = field(default_factory=dict)
    compile_seconds: float | None = None
    megabytes: dict[str, float] = field(default_factory=dict)
    apart: dict[str, Process] = field(default_factory=dict)
    form: str = ""

    def ratio(self, name: str, of: str = PLAIN) -> float:
        return self.timings[name].median / self.timings[of].median


def read(folder: Path, about: Mapping[str, object]) -> list[Result]:
    """The results in a folder; none if they are of another version or machine."""
    path = folder / "speed.json"
    document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return [_result(row) for row in document["results"]] if document.get("about") == dict(about) else []


def keep(results: Sequence[Result], about: Mapping[str, object], folder: Path) -> None:
    document = {"about": dict(about), "results": [asdict(result) for result in results]}
    (folder / "speed.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def merged(old: Sequence[Result], new: Result, order: Sequence[str]) -> list[Result]:
    """A result in place of the one of the same model and batch."""
    before = next((result for result in old if _key(result) == _key(new)), None)
    rest = [result for result in old if result is not before]
    return sorted([*rest, new], key=lambda result: (bool(result.form), _place(result.model, order), result.batch))


def _key(result: Result) -> tuple[str, int, str]:
    return result.model, result.batch, result.form


def _place(model: str, order: Sequence[str]) -> int:
    return order.index(model) if model in order else len(order)


def _result(row: dict[str, Any]) -> Result:
    timings = {name: Timing(**timing) for name, timing in row["timings"].items()}
    apart = {
        name: Process(Timing(**process["seconds"]), process["megabytes"]) for name, process in row["apart"].items()
    }
    return Result(**{**row, "timings": timings, "apart": apart})
