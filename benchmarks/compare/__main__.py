"""Compares DeiT-tiny with its quantised files: GRADSKIP_ASSETS=FOLDER python -m benchmarks.compare [--limit N].

Each step goes on where it was stopped; the table for docs/compare.md is printed at the end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from gradskip_onnx.cli.main import cli

from gradskip_onnx.errors import GradskipError

from .files import FILES

CHECKPOINT = "deit_tiny/deit_tiny_patch16_224.pth"
MEASURES = ("spearman", "iou", "ndcg")


@click.command()
@click.option("--limit", type=click.IntRange(min=2), help="So many of the 200 photographs, spread evenly.")
@click.option("--build", default="build/compare", show_default=True, type=click.Path(path_type=Path))
@click.option("--file", "names", multiple=True, type=click.Choice(list(FILES)), help="Only this file; may be repeated.")
def main(limit: int | None, build: Path, names: tuple[str, ...]) -> None:
    """Make the files, audit each, compare all with float32, and print the table."""
    if "GRADSKIP_ASSETS" not in os.environ:
        raise click.UsageError("set GRADSKIP_ASSETS to the folder of assets")
    assets = Path(os.environ["GRADSKIP_ASSETS"])
    build.mkdir(parents=True, exist_ok=True)
    plain, some = build / "float32.onnx", [] if limit is None else ["--limit", str(limit)]
    if not plain.exists():
        call("export", "deit_tiny_patch16_224", "--checkpoint", assets / CHECKPOINT, "--plain", "-o", plain)
    first = build / f"float32-{limit or 'all'}"
    call("audit", plain, assets / "images", "--check-draws", "1", "-o", first, *some)
    rows = []
    for name in names or FILES:
        file, folder = build / f"{name}.onnx", build / f"{name}-{limit or 'all'}"
        try:
            if not file.exists():
                FILES[name](plain, assets / "imagenet_boxes" / "images", file)
            call("compare", first, file, assets / "images", "-o", folder, *some)
        except GradskipError as refused:
            rows.append([name, f"refused: {refused}"])
            continue
        rows.append(row_of(name, json.loads((folder / "comparison.json").read_text()), folder))
    print("\n".join(table(rows)))


def call(*arguments: object) -> None:
    """`gradskip-onnx ARGUMENTS` in this process; raises its errors."""
    words = [str(argument) for argument in arguments]
    click.echo(f"gradskip-onnx {' '.join(words)}", err=True)
    cli.main(words, standalone_mode=False)


def row_of(name: str, document: dict[str, Any], folder: Path) -> list[str]:
    """A file in numbers: flips, then mean, median and worst of each measure."""
    import pyarrow.parquet

    findings = {one["name"]: one["overall"] for one in document["findings"]}
    pairs = pyarrow.parquet.read_table(folder / "comparison.parquet").to_pydict()
    flips = findings["flips"]
    cells = [name, f"{round(flips['value'] * flips['count'])} of {flips['count']}"]
    cells.append(f"{flips['low']:.3f} … {flips['high']:.3f}")
    for measure in MEASURES:
        found, values = findings[measure], sorted(value for value in pairs[measure] if value is not None)
        cells.append(f"{found['value']:.3f} ({found['low']:.3f} … {found['high']:.3f})")
        cells.append(f"{values[len(values) // 2]:.3f}, {values[0]:.3f}")
    return cells


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in Markdown."""
    head = ["file", "flips", "95 %", *(f"{one}{part}" for one in MEASURES for part in (", mean", ": median, worst"))]
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


if __name__ == "__main__":
    main()
