"""The zoo from the command line: build, check, page."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .families import FAMILIES
from .plan import SLICES, File, chosen

OUTCOMES = ("explained", "refused", "wrong", "crashed")
console = Console(stderr=True)


@click.group()
def main() -> None:
    """Small vision transformers of every kind, from every exporter, post-processed in every way."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # workers share the cores; one thread each


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
        console=console,
    )  # fmt: skip


def _files(slice_name: str, family: tuple[str, ...], match: str) -> list[File]:
    return [file for file in chosen(slice_name, family) if fnmatch(file.name, match)]


FILE_OPTIONS = (
    click.argument("folder", type=click.Path(file_okay=False, path_type=Path)),
    click.option("--slice", "slice_name", type=click.Choice(SLICES), default="all", show_default=True),
    click.option("--family", multiple=True, type=click.Choice(list(FAMILIES)), help="Repeat for several."),
    click.option("--match", default="*", help="Names that fit this pattern, e.g. '*-dynamo18-*'."),
    click.option("--workers", default=2, show_default=True, type=click.IntRange(1)),
)


def file_options(command: Callable[..., None]) -> Callable[..., None]:
    """Which files of the zoo, in which folder, by how many at a time."""
    for option in reversed(FILE_OPTIONS):
        command = option(command)
    return command


@main.command()
@file_options
@click.option("--retry", is_flag=True, help="Try again what failed before.")
def build(folder: Path, slice_name: str, family: tuple[str, ...], match: str, workers: int, retry: bool) -> None:
    """Write the files into FOLDER; those that are there are left alone."""
    from .build import build as build_files

    files = _files(slice_name, family, match)
    wanted = {file.name for file in files} | {file.base.name for file in files}
    counts: Counter[str] = Counter()
    with _bar() as bar:
        task = bar.add_task("building", total=len(wanted))
        for name, how in build_files(folder, files, workers, retry):
            counts[how if how in ("there", "written") else "failed"] += 1
            if how not in ("there", "written"):
                bar.console.print(f"{name}: {how}", markup=False)
            bar.update(task, advance=1, description=name)
    console.print(", ".join(f"{count} {how}" for how, count in counts.items()))


@main.command()
@file_options
@click.option(
    "-o", "--output", default="report.json", show_default=True, type=click.Path(dir_okay=False, path_type=Path)
)
@click.option("--redo", multiple=True, type=click.Choice(OUTCOMES), help="Check files with this outcome again; repeat.")
@click.option("--strict", is_flag=True, help="Fail if any file is wrong or crashed.")
def check(
    folder: Path, slice_name: str, family: tuple[str, ...], match: str, workers: int, output: Path,
    redo: tuple[str, ...], strict: bool,
) -> None:  # fmt: skip
    """Explain the files in FOLDER and compare; what the report holds already is not checked again."""
    from .check import check as check_files

    files = _files(slice_name, family, match)
    counts: Counter[str] = Counter()
    with _bar() as bar:
        task = bar.add_task("checking", total=len(files))
        for name, outcome in check_files(folder, files, output, workers, redo):
            counts[outcome] += 1
            bar.update(task, advance=1, description=name)
    console.print(", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()))
    if strict and (counts["wrong"] or counts["crashed"] or not counts["explained"]):
        sys.exit(1)


@main.command()
@click.argument("report", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def page(report: Path) -> None:
    """Print the matrix of a report as Markdown."""
    from .page import render

    click.echo(render(report), nl=False)


if __name__ == "__main__":
    sys.exit(main())
