"""One command: every contender on every model, interleaved in one run.

    python -m benchmarks.speed FOLDER --page docs/performance.md     measures, and fills the tables of the page
    python -m benchmarks.speed FOLDER [--quick] [--model NAME] [--only times|quantised]
    python -m benchmarks.speed FOLDER --no-measure --page docs/performance.md

FOLDER receives the model files (once) and speed.json, speed.md and speed.svg; a run adds to what is there, so models
can be measured one by one. ONNX Runtime's threads stop when a run ends, or they would take the cores from PyTorch.
Each model and batch size has a process of its own; peak memory and cold start are those of fresh processes.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import click

from gradskip_onnx.version import __version__

from .apart import apart
from .cases import CASES, QUICK, Case, with_gradients, written
from .contenders import contenders, setting
from .measure import interleaved
from .page import filled, tables, write
from .quantised import measure_quantised
from .results import Result, keep, merged, read

SHELL_ROUNDS = 3


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--quick", is_flag=True, help="Small models, one round, nothing compiled: shows that all of it runs.")
@click.option("--rounds", type=int, help="Of every contender.  [default: fewer for larger models]")
@click.option("--batch", "batches", type=click.IntRange(1, 8), multiple=True, help="[default: those of each model]")
@click.option("--model", "models", type=click.Choice(list(CASES)), multiple=True, help="Only these.")
@click.option("--threads", type=int, default=len(os.sched_getaffinity(0)), show_default=True)
@click.option("--processes/--no-processes", default=True, help="Whether to measure fresh processes too.")
@click.option("--compile/--no-compile", "compiled", default=None, help="Whether torch.compile takes part.")
@click.option("--resume", is_flag=True, help="Only what FOLDER holds no results of.")
@click.option("--only", type=click.Choice(["times", "quantised"]), help="Full-precision files, or quantised ones.")
@click.option("--measure/--no-measure", "measuring", default=True, help="Whether to measure, or only to fill the page.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Fill this page's tables at the end.")
def main(
    folder: Path, quick: bool, rounds: int | None, batches: tuple[int, ...], models: tuple[str, ...], threads: int,
    processes: bool, compiled: bool | None, resume: bool, only: str | None, measuring: bool, page: Path | None,
) -> None:  # fmt: skip
    about = {"version": __version__, "threads": threads, "machine": platform.machine(), "quick": quick}
    cases = {name: case for name, case in (QUICK if quick else CASES).items() if not models or name in models}
    known = read(folder, about) if resume else []
    done = {(result.model, result.batch, bool(result.form)) for result in known}
    jobs = [
        (name, batch, form)
        for form in (False, True) if only is None or form == (only == "quantised")
        for name, case in cases.items() if case.quantised or not form
        for batch in ((1,) if quick or form else batches or case.batches) if (name, batch, form) not in done
    ] if measuring else []  # fmt: skip
    for name, batch, form in jobs:
        case = cases[name]
        if case.absent:
            click.echo(f"{name} is left out: {case.absent}", err=True)
        elif quick or len(jobs) == 1:
            count = rounds or (1 if quick else case.rounds[batch > 1])
            shell = (1 if quick else SHELL_ROUNDS) if processes and case.apart and batch == 1 else 0
            use_compiler = case.compiled and batch == 1 if compiled is None else compiled
            found = (
                measure_quantised(name, case, folder, threads, count) if form
                else [_measured(name, case, folder, batch, threads, count, shell, use_compiler and not quick)]
            )  # fmt: skip
            results = read(folder, about)
            for result in found:
                results = merged(results, result, list(CASES))
            keep(results, about, folder)
            write(results, folder)
            click.echo(tables(found))
        else:
            _elsewhere([
                str(folder), "--model", name, "--batch", str(batch), "--threads", str(threads),
                "--only", "quantised" if form else "times",
                *(["--rounds", str(rounds)] if rounds else []), *([] if processes else ["--no-processes"]),
                *({None: [], True: ["--compile"], False: ["--no-compile"]}[compiled]),
            ])  # fmt: skip
    if page is not None:
        _fill(page, folder, about)


def _measured(
    name: str, case: Case, folder: Path, batch: int, threads: int, rounds: int, shell: int, compiled: bool
) -> Result:
    file = written(case, folder)
    fresh = apart(case, file, folder, threads, shell) if shell else {}  # first: nothing else is in memory
    given = setting(case, file, batch, threads)
    with ExitStack() as stack:
        found = contenders(given, stack, compiled=compiled)
        timings = interleaved(found.calls, rounds)
    sizes = {"plain": file.stat().st_size, "with gradients": with_gradients(given.explainer, file)}
    return Result(
        name, batch, timings, found.differences, found.missing, found.compile_seconds,
        {kind: size / 1e6 for kind, size in sizes.items()}, fresh,
    )  # fmt: skip


def _elsewhere(given: list[str]) -> None:
    """The same command for one model and batch size, in a process that ends with it; the others go on if it fails."""
    done = subprocess.run([sys.executable, "-m", __package__, *given], check=False)
    if done.returncode:
        click.echo(f"failed with exit code {done.returncode}: {' '.join(given)}", err=True)


def _fill(page: Path, folder: Path, about: dict[str, object]) -> None:
    results = read(folder, about)
    if not results:
        raise click.UsageError(f"{folder} holds no results of this version and machine")
    page.write_text(filled(page.read_text(encoding="utf-8"), results), encoding="utf-8")
    images = page.parent / "images"
    if images.is_dir():
        (images / "speed.svg").write_bytes((folder / "speed.svg").read_bytes())


if __name__ == "__main__":
    main()
