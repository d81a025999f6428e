"""What `evaluate` and `study` share: their options, the set-up, the run, and the final tables and files."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradskip_onnx.errors import InputError

from .options import device_options, json_option, preprocess_options, read_folder, stack, verbosity_options

if TYPE_CHECKING:
    from rich.table import Table

    from gradskip_onnx.api import Explainer
    from gradskip_onnx.datasets import Dataset
    from gradskip_onnx.evaluation import Evaluation, Findings, MethodChoice, Report
    from gradskip_onnx.metrics import Choice
    from gradskip_onnx.metrics.table import Row

    from .console import Terminal

SOME_FAILED = 6
# The keys of datasets.LAYOUTS, without importing it for --help.
LAYOUT_NAMES = ("planted", "list", "address", "medmnist", "ade20k", "imagenet", "samples", "folder")


def output_option(default: str, content: str) -> Callable[[Any], Any]:
    """-o with its default folder, and what is written there."""
    return click.option("-o", "--output", callback=read_folder, default=default, show_default=True,
                        metavar="DIR", help=f"Folder for {content}.")  # fmt: skip


data_options = stack(
    click.option("--layout", metavar="NAME", help=f"How DATA is laid out: {', '.join(LAYOUT_NAMES)}, or one of an "
                 "installed package.  [default: detected]"),
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
    click.option("--batch-size", type=click.IntRange(1, 1024), default=8, show_default=True,
                 help="Images read and explained together."),
)  # fmt: skip

score_option = click.option("--score", type=click.Choice(["logit", "probability"]), default="logit", show_default=True,
                            help="What is differentiated, where a method has no score of its own.")  # fmt: skip

resamples_option = click.option("--resamples", type=click.IntRange(100, 1_000_000), default=2000, show_default=True,
                                help="Draws of the bootstrap.")  # fmt: skip

settings_options = stack(preprocess_options, device_options, json_option, verbosity_options)


def evaluation_options(folder: str) -> Callable[[Any], Any]:
    """The shared options; `folder` is the default output folder."""
    return stack(
        output_option(folder, "results.csv, results.json and report.html"),
        data_options,
        score_option,
        click.option("--pictures", type=click.IntRange(0, 200), default=8, show_default=True,
                     help="Images in the picture grid of the page."),
        click.option("--reference", metavar="METHOD", help="The method others are compared to.  [default: the first]"),
        resamples_option,
        click.option("--force", is_flag=True, help="Replace the table and page of another model, data or settings."),
        click.option("--retry", is_flag=True, help="Measure again what failed in an earlier run."),
        settings_options,
    )  # fmt: skip


class RecordedCommand(click.Command):
    """A command that stores its arguments as typed, so that results can quote the command line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["gradskip_onnx.arguments"] = list(args)
        return super().parse_args(ctx, args)


def command_line() -> str:
    """The command being run, quoted for a shell."""
    ctx = click.get_current_context()
    return f"{ctx.command_path} {shlex.join(ctx.meta['gradskip_onnx.arguments'])}"


def select(data: str, flags: Mapping[str, Any]) -> Dataset:
    """The dataset at `data`, reduced to the images that the options select."""
    from gradskip_onnx.datasets import Selection, load
    from gradskip_onnx.datasets.selection import read_indices, read_part

    indices = () if flags["indices"] is None else read_indices(flags["indices"])
    selection = Selection(indices, read_part(flags["part"]), flags["limit"])
    return selection.of(load(data, flags["layout"], split=flags["split"], synsets=flags["synsets"]))


def open_both(model: Path, data: str, terminal: Terminal, flags: Mapping[str, Any]) -> tuple[Explainer, Dataset]:
    """Open and check the model and the images, and print what they are."""
    from .explain_request import load_explainer
    from .report import report_model

    dataset = select(data, flags)
    explainer = load_explainer(model, flags)
    if explainer.architecture.input_dims.channels != 3:
        raise InputError(f"{model.name} takes {explainer.architecture.input_dims.channels} channels, an image has 3")
    report_model(terminal, explainer)
    terminal.print(f"data      {dataset.where}: {len(dataset.entries)} images ({dataset.layout})")
    return explainer, dataset


def set_up(
    model: Path,
    data: str,
    methods: Sequence[MethodChoice],
    metrics: Sequence[Choice[Row]],
    terminal: Terminal,
    flags: dict[str, Any],
) -> Evaluation:
    """Set up an evaluation of the model on the images; nothing is measured yet."""
    from gradskip_onnx import evaluation

    explainer, dataset = open_both(model, data, terminal, flags)
    prepared, warnings = evaluation.set_up(
        explainer,
        dataset,
        methods,
        metrics,
        target=flags["target"],
        score=flags["score"],
        batch=flags["batch_size"],
        pictures=flags["pictures"],
        retry=flags["retry"],
    )
    terminal.warn(warnings)
    return prepared


def run(evaluation: Evaluation, terminal: Terminal, flags: dict[str, Any]) -> Report:
    """Measure with a progress bar; a stopped run keeps the results it has."""
    from gradskip_onnx.evaluation import evaluate

    with terminal.progress(evaluation.steps) as step:
        return evaluate(
            evaluation,
            flags["output"],
            reference=flags["reference"],
            resamples=flags["resamples"],
            step=step,
            force=flags["force"],
        )


def finish(report: Report, terminal: Terminal, *, title: str, findings: Findings | None = None) -> None:
    """Print the tables, write the files, and exit with code 6 if anything failed."""
    from gradskip_onnx.evaluation import Findings, write

    from .evaluation_tables import gap_table, level_lines, note_table, score_table

    found = findings or Findings()
    paths = write(report, title=title, command=command_line(), findings=found)
    terminal.document({**report.document, **found.document, "files": [str(path) for path in paths]}, single=True)
    _print_tables(terminal, [score_table(report), gap_table(report)])
    for line in level_lines(report):
        terminal.print(line)
    _print_tables(terminal, map(note_table, found.notes))
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


def _print_tables(terminal: Terminal, tables: Iterable[Table | None]) -> None:
    for table in tables:
        if table is not None:
            terminal.print("")
            terminal.table(table)
