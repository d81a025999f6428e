"""gradskip-onnx explain: heat maps for images, from the model file alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from .file_options import file_options, read_file_settings
from .options import device_options, json_lines_option, preprocess_options, verbosity_options
from .picture_options import picture_options

SOME_FAILED = 6

EXAMPLES = """\b
Examples:
  gradskip-onnx explain                                   the embedded demo
  gradskip-onnx explain model.onnx photo.jpg
  gradskip-onnx explain model.onnx photo.jpg --target "tabby" --labels names.txt
  gradskip-onnx explain model.onnx photo.jpg --target top5 --json
  gradskip-onnx explain model.onnx photo.jpg --overlay-only --figure-size 1200 --outline 0.8
  gradskip-onnx explain model.onnx 'photos/*.jpg' -o maps --preset half --batch-size 8
  gradskip-onnx explain model.onnx ./ -o maps            every image of the working folder; goes on if stopped
  gradskip-onnx explain model.onnx photos -o maps --write png,json --map-dtype float16
  gradskip-onnx explain segformer.onnx street.png --target road --region 320,400
  gradskip-onnx explain model.onnx photo.jpg --alpha 0.7 -O gate=branch
"""


@click.command(epilog=EXAMPLES)
@click.argument("model", type=click.Path(path_type=Path), required=False)
@click.argument("images", nargs=-1, metavar="[IMAGE|FOLDER|PATTERN]...")
@file_options
@click.option("--target", metavar="INDEX|LABEL|top5", help="Class to explain.  [default: the predicted one]")
@click.option("--region", metavar="MASK|X,Y", help="Segmentation: a mask image, or a point in image pixels.")
@click.option("--score", type=click.Choice(["logit", "probability"]), default="logit", show_default=True,
              help="What is differentiated; gradskip+ and finer-cam have scores of their own.")  # fmt: skip
@click.option(
    "--method",
    help="How relevance is found; `gradskip-onnx methods` lists all.  [default: gradskip+; "
    "gradskip where --alpha or --gamma is given]",
)
@click.option("--alpha", type=float, help="Option alpha of gradskip: gradient flow against sparsity.")
@click.option("--gamma", type=float, help="Option gamma of gradskip: threshold of the flow.")
@click.option(
    "-O",
    "--option",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any option of the method; `gradskip-onnx methods NAME` lists them.",
)
@click.option(
    "--batch-size",
    type=click.IntRange(1, 1024),
    default=1,
    show_default=True,
    help="Images in one pass; passes of many images run beside each other.",
)
@picture_options
@preprocess_options
@device_options
@json_lines_option
@verbosity_options
def explain(model: Path | None, images: tuple[str, ...], output: Path, force: bool, **flags: Any) -> None:
    """Draw what MODEL looked at in images; without arguments, explain the embedded demo."""
    if model is not None and not images:
        raise click.UsageError("name at least one image, folder or pattern")
    from gradskip_onnx.demo import demo_model
    from gradskip_onnx.model_file.opening import open_if_possible

    file = open_if_possible(model or demo_model())  # hashes in the background during the imports below
    from gradskip_onnx.output.folder import Folder

    from .console import Terminal
    from .explain_request import read_request
    from .explain_run import Run
    from .inputs import read_jobs

    terminal = Terminal(flags["verbose"], flags["quiet"], flags["as_json"])
    request, settings = read_request(flags), read_file_settings(flags)
    jobs = read_jobs(images)
    several = len(jobs) > 1 or (bool(images) and os.path.isdir(images[0]))
    if len(jobs) > len(images) > 0:
        terminal.print(f"images    {len(jobs)}")  # of folders and patterns: how many were meant
    folder = Folder(output, force or model is None)  # the demo overwrites its own files
    folder.open()
    failures = Run(terminal, file, jobs, request, settings, folder, flags).explain(several)
    if failures:
        terminal.failed(f"{failures} of {len(jobs)} images failed")
        raise click.exceptions.Exit(SOME_FAILED)
