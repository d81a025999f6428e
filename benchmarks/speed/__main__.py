"""One command: every contender on every model, interleaved in one run.

    python -m benchmarks.speed FOLDER [--quick]

FOLDER receives the model files (once) and speed.json, speed.md and speed.svg. ONNX Runtime's threads do not spin, since
they would take the cores from PyTorch. Peak memory and cold start are those of fresh processes.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

import click

from gradskip_onnx.version import __version__

from .apart import apart
from .cases import CASES, QUICK, written
from .contenders import contenders
from .measure import interleaved
from .page import Result, tables, write


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--quick", is_flag=True, help="Small models, one round: shows that all of it runs.")
@click.option("--rounds", type=int, default=15, show_default=True)
@click.option("--batch", "batches", type=int, multiple=True, default=(1, 8), show_default=True)
@click.option("--model", "models", multiple=True, help="Only these.")
@click.option("--threads", type=int, default=len(os.sched_getaffinity(0)), show_default=True)
@click.option("--processes/--no-processes", default=True, help="Whether to measure fresh processes too.")
def main(
    folder: Path, quick: bool, rounds: int, batches: tuple[int, ...], models: tuple[str, ...], threads: int,
    processes: bool,
) -> None:  # fmt: skip
    cases = {name: case for name, case in (QUICK if quick else CASES).items() if not models or name in models}
    results = []
    for name, case in cases.items():
        file = written(case, folder)
        for batch in (1,) if quick else batches:
            calls, difference = contenders(case, file, batch, threads)
            timings = interleaved(calls, 1 if quick else max(3, rounds // batch))
            fresh = apart(case, file, folder, threads) if processes and batch == 1 else {}
            results.append(Result(name, batch, timings, difference, file.stat().st_size / 1e6, fresh))
            write(results, {"version": __version__, "threads": threads, "machine": platform.machine()}, folder)
            click.echo(tables(results[-1:]))


if __name__ == "__main__":
    main()
