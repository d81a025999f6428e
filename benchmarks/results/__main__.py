"""docs/results.md from the command line: run what is missing, then write the tables."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import click

from .runs import EXPORTS, RUNS
from .tables import KEPT, filled


@click.group()
def main() -> None:
    """The runs behind docs/results.md, and its tables."""


@main.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--only", multiple=True, type=click.Choice([run.name for run in RUNS]), help="Repeat for several.")
def run(folder: Path, only: tuple[str, ...]) -> None:
    """Measure into FOLDER; what is there is not measured again. Needs GRADSKIP_ASSETS for the real images."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [each for each in RUNS if not only or each.name in only]
    for export in EXPORTS:
        if any(each.model == export.file for each in wanted) and not (folder / export.file).exists():
            _call(export.words, folder)
    for each in wanted:
        _call(each.words, folder)
        shutil.copyfile(folder / each.folder / "results.json", folder / KEPT.format(each.name))


@main.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("page", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def tables(folder: Path, page: Path) -> None:
    """Write the tables of PAGE anew from the results in FOLDER."""
    page.write_text(filled(page.read_text(encoding="utf-8"), folder), encoding="utf-8")


def _call(words: list[str], folder: Path) -> None:
    click.echo(f"gradskip-onnx {shlex.join(words)}")
    subprocess.run(["gradskip-onnx", *map(os.path.expandvars, words)], cwd=folder, check=True)


if __name__ == "__main__":
    main()
