"""What `evaluate` and `study` share: which images, how they are measured, and what is said and written at the end."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradskip_onnx.errors import InputError

from .options import device_options, json_option, preprocess_options, read_folder, stack, verbosity_options

if TYPE_CHECKING:
    from gradskip_onnx.datasets import Dataset
    from gradskip_onnx.evaluation import Evaluation, Findings, MethodChoice, Report
    from gradskip_onnx.metrics import Choice
    from gradskip_onnx.metrics.table import Row

    from .console import Terminal

SOME_FAILED = 6
LAYOUT_NAMES = ("planted", "medmnist", "ade20k", "imagenet", "samples", "folder")  # datasets.LAYOUTS, not imported


def _folder(default: str) -> Callable[[Any], Any]:
    return click.option("-o", "--output", callback=read_folder, default=default, show_default=True,
                        metavar="DIR", help="Folder for results.csv, results.json and report.html.")  # fmt: skip


def evaluation_options(folder: str) -> Callable[[Any], Any]:
    """The options, with the default of the output folder."""
    return stack(
        _folder(folder),
        click.option("--layout", type=click.Choice(LAYOUT_NAMES), help="How DATA is laid out.  [default: detected]"),
        click.option("--split", metavar="NAME", help="Part of a dataset that has several: train, val, test."),
        click.option("--synsets", type=click.Path(path_type=Path), metavar="FILE",
                     help="WordNet ids in the order of the classes, a line each."),
        click.option("--indices", type=click.Path(path_type=Path), metavar="FILE",
                     help="Numbers of the images to take, from 0; text or YAML."),
        click.option("--part", default="1/1", metavar="I/N", help="Every N-th image from the I-th on: 1/2 and 2/2 are "
                     "halves, one to tune on and one to report."),
        click.option("--limit", type=click.IntRange(min=1), metavar="N", help="N images of those, spread evenly."),
        click.option("--target", type=click.Choice(["predicted", "label"]), default="predicted", show_default=True,
                     help="The class explained; for segmentation `label` is each class that is there and predicted."),
        click.option("--score", type=click.Choice(["logit", "probability"]), default="logit", show_default=True,
                     help="What is differentiated, where a method has no score of its own."),
        click.option("--batch-size", type=click.IntRange(1, 1024), default=8, show_default=True,
                     help="Images read and explained together."),
        click.option("--pictures", type=click.IntRange(0, 200), default=8, show_default=True,
                     help="Images in the picture grid of the page."),
        click.option("--reference", metavar="METHOD", help="The method others are compared to.  [default: the first]"),
        click.option("--resamples", type=click.IntRange(100, 1_000_000), default=2000, show_default=True,
                     help="Draws of the bootstrap."),
        click.option("--force", is_flag=True, help="Replace the table and page of another model, data or settings."),
        click.option("--retry", is_flag=True, help="Measure again what failed in an earlier run."),
        preprocess_options,
        device_options,
        json_option,
        verbosity_options,
    )  # fmt: skip


class Remembered(click.Command):
    """A command that keeps its arguments as they were written: results say how they were made."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["gradskip_onnx.arguments"] = list(args)
        return super().parse_args(ctx, args)


def command_line() -> str:
    """The command being run, ready to be pasted."""
    ctx = click.get_current_context()
    return f"{ctx.command_path} {shlex.join(ctx.meta['gradskip_onnx.arguments'])}"


def select(data: str, given: Mapping[str, Any]) -> Dataset:
    """The images asked for."""
    from gradskip_onnx.datasets import Selection, load
    from gradskip_onnx.datasets.selection import read_indices, read_part

    indices = () if given["indices"] is None else read_indices(given["indices"])
    chosen = Selection(indices, read_part(given["part"]), given["limit"])
    return chosen.of(load(data, given["layout"], split=given["split"], synsets=given["synsets"]))


def set_up(
    model: Path,
    data: str,
    methods: Sequence[MethodChoice],
    metrics: Sequence[Choice[Row]],
    terminal: Terminal,
    given: dict[str, Any],
) -> Evaluation:
    """Model and images opened and checked; nothing is measured yet."""
    from gradskip_onnx import evaluation

    from .explain_request import load_explainer
    from .report import report_model

    dataset = select(data, given)
    explainer = load_explainer(model, given)
    if explainer.architecture.input_dims.channels != 3:
        raise InputError(f"{model.name} takes {explainer.architecture.input_dims.channels} channels, an image has 3")
    report_model(terminal, explainer)
    made, warnings = evaluation.set_up(
        explainer,
        dataset,
        methods,
        metrics,
        target=given["target"],
        score=given["score"],
        batch=given["batch_size"],
        pictures=given["pictures"],
        retry=given["retry"],
    )
    terminal.warn(warnings)
    terminal.print(f"data      {dataset.where}: {len(dataset.entries)} images ({dataset.layout})")
    return made


def run(evaluation: Evaluation, terminal: Terminal, given: dict[str, Any]) -> Report:
    """Measure with a progress bar; a run that is stopped leaves what it has."""
    from gradskip_onnx.evaluation import evaluate

    with terminal.progress(evaluation.steps) as step:
        return evaluate(
            evaluation,
            given["output"],
            reference=given["reference"],
            resamples=given["resamples"],
            step=step,
            force=given["force"],
        )


def finish(report: Report, terminal: Terminal, *, title: str, findings: Findings | None = None) -> None:
    """Tables on the terminal, files in the folder, and exit code 6 if anything failed."""
    from gradskip_onnx.evaluation import Findings, write

    from .evaluation_tables import gap_table, note_table, score_table

    found = findings or Findings()
    paths = write(report, title=title, command=command_line(), findings=found)
    terminal.document({**report.document, **found.document, "files": [str(path) for path in paths]}, single=True)
    tables = [score_table(report), gap_table(report), *map(note_table, found.notes)]
    for table in tables:
        if table is not None:
            terminal.print("")
            terminal.table(table)
    terminal.print("")
    for path, word in zip(paths, ("table", "numbers", "page"), strict=True):
        terminal.print(f"{word:<9} {path}", style="bold" if word == "page" else "")
    failures = report.summary.failures
    if failures:
        first = failures[0]
        terminal.failed(
            f"{len(failures)} measurements failed, the first: {first.image}, {first.method}: {first.reason}; "
            "--retry measures them again"
        )
        raise click.exceptions.Exit(SOME_FAILED)
