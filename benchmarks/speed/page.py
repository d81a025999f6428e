"""Results as a table, as JSON and as a drawing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .contenders import PLAIN
from .measure import Timing

INKS = ("#8a8a8a", "#56b4e9", "#0072b2", "#d55e00", "#e69f00", "#cc79a7")
ROW, BAR, LEFT, WIDTH = 16, 11, 190, 640


@dataclass(frozen=True, slots=True)
class Result:
    """One model at one batch size; `apart` holds (seconds, megabytes) of a whole process."""

    model: str
    batch: int
    timings: dict[str, Timing]
    difference: float  # of our maps from PyTorch's, as a share of their maximum
    file_megabytes: float
    apart: dict[str, tuple[float, float]] = field(default_factory=dict)

    def ratio(self, name: str) -> float:
        return self.timings[name].median / self.timings[PLAIN].median


def as_json(results: Sequence[Result], about: dict[str, object]) -> str:
    return json.dumps({"about": about, "results": [asdict(result) for result in results]}, indent=1)


def tables(results: Sequence[Result]) -> str:
    """Milliseconds and multiples of a plain forward pass; then what was measured in processes of their own."""
    lines = ["| model | batch | what | ms (median) | quartiles | forward passes |", "|---|---|---|---|---|---|"]
    for result in results:
        for name, timing in result.timings.items():
            lines.append(
                f"| {result.model} | {result.batch} | {name} | {timing.median:.1f} | {timing.low:.1f} to "
                f"{timing.high:.1f} | {result.ratio(name):.2f} |"
            )
    whole = [result for result in results if result.apart]
    if whole:
        lines += ["", "| model | process | seconds | peak MB | file MB |", "|---|---|---|---|---|"]
        for result in whole:
            lines += [
                f"| {result.model} | {name} | {seconds:.1f} | {megabytes:.0f} | {result.file_megabytes:.0f} |"
                for name, (seconds, megabytes) in result.apart.items()
            ]
    return "\n".join(lines) + "\n"


def drawing(results: Sequence[Result]) -> str:
    """Bars in multiples of a plain forward pass, as SVG."""
    longest = max(result.ratio(name) for result in results for name in result.timings)
    parts, y = [], 10
    for result in results:
        parts.append(f'<text x="4" y="{y + BAR}" font-weight="bold">{result.model}, batch {result.batch}</text>')
        y += ROW
        for ink, name in zip(INKS, result.timings, strict=False):
            ratio = result.ratio(name)
            width = (WIDTH - LEFT - 60) * ratio / longest
            parts.append(f'<text x="{LEFT - 6}" y="{y + BAR - 1}" text-anchor="end">{name}</text>')
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{ink}"/>')
            parts.append(f'<text x="{LEFT + width + 5:.1f}" y="{y + BAR - 1}">{ratio:.2f}</text>')
            y += ROW
        y += ROW // 2
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" font-family="sans-serif" font-size="11">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="#ffffff"/>', *parts, "</svg>"]) + "\n"


def write(results: Sequence[Result], about: dict[str, object], folder: Path) -> None:
    (folder / "speed.json").write_text(as_json(results, about) + "\n", encoding="utf-8")
    (folder / "speed.md").write_text(tables(results), encoding="utf-8")
    (folder / "speed.svg").write_text(drawing(results), encoding="utf-8")
