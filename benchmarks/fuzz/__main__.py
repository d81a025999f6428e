"""The fuzzers from the command line: a run, one case again, the page."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from .campaign import LEDGER, SECONDS, campaign, latest
from .case import Case
from .kinds import KINDS, cases, counts
from .page import CLASSES, count, put_into, render

console = Console(stderr=True, highlight=False)


@click.command()
@click.option("--count", "models", default=1000, show_default=True, type=click.IntRange(1),
              help="Models; of each other kind a share of that.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Another seed, other mutants.")
@click.option("-o", "--output", "folder", type=click.Path(file_okay=False, path_type=Path), default=Path("fuzz-out"),
              show_default=True, help="Ledger and faults; a run that was stopped goes on from here.")  # fmt: skip
@click.option(
    "--kind", "only", multiple=True, type=click.Choice(list(KINDS)), help="Only this kind; repeat for several."
)
@click.option("--workers", default=2, show_default=True, type=click.IntRange(1))
@click.option("--seconds", default=SECONDS, show_default=True, help="Time limit of a case.")
@click.option("--retry", is_flag=True, help="Make the cases again that were faults.")
@click.option("--case", "name", metavar="KIND:NUMBER", help="Make one case and print everything about it.")
@click.option(
    "--page", type=click.Path(dir_okay=False, path_type=Path), help="Write the table of FOLDER into this page."
)
@click.option("--strict", is_flag=True, help="Exit with 1 if there are faults.")
def main(
    models: int, seed: int, folder: Path, only: tuple[str, ...], workers: int, seconds: float, retry: bool,
    name: str | None, page: Path | None, strict: bool,
) -> None:  # fmt: skip
    """Damaged models, images, settings and cache entries through the command line, each with a verdict."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # workers share the cores; one thread each
    if name is not None:
        show(parse_case(name, seed), seconds)
        return
    if page is not None:
        text = page.read_text(encoding="utf-8") if page.exists() else ""
        page.write_text(put_into(text, render(latest(folder).values())), encoding="utf-8")
        return
    run(cases(counts(models, only), seed), folder, workers=workers, seconds=seconds, retry=retry)
    if strict and any("error" in record for record in latest(folder).values()):
        sys.exit(1)


def run(chosen: list[Case], folder: Path, **settings: Any) -> None:
    """Make the cases under a progress bar; print the table of all that the folder holds."""
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    faults: Counter[str] = Counter()
    with Progress(*columns, console=console) as bar:
        known = len(latest(folder).keys() & {case.key for case in chosen}) if (folder / LEDGER).exists() else 0
        task = bar.add_task("", total=len(chosen), completed=0 if settings["retry"] else known)
        for record in campaign(chosen, folder, **settings):
            faults.update([record["error"]] if "error" in record else [])
            words = ", ".join(f"{number} {fault}" for fault, number in faults.most_common())
            bar.update(task, advance=1, description=words or "no faults")
    console.print(table(folder))


def table(folder: Path) -> Table:
    """Outcomes by kind."""
    found = count(latest(folder).values())
    shown = Table("outcome", *(f"{kind}" for kind in found))
    for name in dict.fromkeys((*CLASSES, *(name for outcomes in found.values() for name in outcomes))):
        if any(outcomes[name] for outcomes in found.values()):
            shown.add_row(name, *(str(outcomes[name]) for outcomes in found.values()))
    return shown


def parse_case(name: str, seed: int) -> Case:
    kind, _, number = name.partition(":")
    if kind not in KINDS or not number.isdecimal():
        raise click.BadParameter(f"{name!r}: write KIND:NUMBER, KIND one of {', '.join(KINDS)}", param_hint="--case")
    return Case(kind, int(number), seed)


def show(case: Case, seconds: float) -> None:
    """One case with all facts."""
    with TemporaryDirectory(prefix="fuzz-") as place:
        for record in campaign([case], Path(place), workers=1, seconds=seconds):
            for name, value in record.items():
                click.echo(f"{name}: {value if name == 'trace' else ascii(value)}")


if __name__ == "__main__":
    sys.exit(main())
