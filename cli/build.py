"""gradskip-onnx build: one ONNX file that takes an image and gives the model's outputs and the map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import model_argument, preprocess_options

if TYPE_CHECKING:
    import onnx

    from gradskip_onnx.api import Explainer
    from gradskip_onnx.selfcontained.method_file import BuildSettings

EXAMPLES = """\b
Examples:
  gradskip-onnx build model.onnx -o explained.onnx
  gradskip-onnx build model.onnx -o explained.onnx -O pixels=0 --map grid
  gradskip-onnx build model.onnx -o explained.onnx --top 3 --smoothed --normalise
"""


@click.command(epilog=EXAMPLES)
@model_argument
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path, dir_okay=False), help="File to write.")
@click.option("--method", help="How relevance is found; docs/build.md lists those that can be built in.  "
              "[default: gradskip+]")  # fmt: skip
@click.option("-O", "--option", "pairs", multiple=True, metavar="NAME=VALUE",
              help="Any option of the method; `gradskip-onnx methods NAME` lists them.")  # fmt: skip
@click.option("--score", type=click.Choice(["logit", "probability"]), default="logit", show_default=True,
              help="What is differentiated; gradskip+ has a score of its own.")  # fmt: skip
@click.option("--map", "map_size", type=click.Choice(["image", "grid"]), default="image", show_default=True,
              help="The map at the size of the model's input, or on the grid of the method.")  # fmt: skip
@click.option("--top", type=click.IntRange(1, 5), default=None, metavar="K",
              help="Explain the K likeliest classes of each image in one run, or K that are named.")  # fmt: skip
@click.option("--smoothed", is_flag=True, help="Smooth the map for the eye, as pictures are.")
@click.option("--normalise", is_flag=True, help="The smallest value of each map 0, the largest 1.")
@click.option("--switch/--no-switch", default=True, show_default=True,
              help="An input `explain`: where it is fed false, only the forward pass is computed.")  # fmt: skip
@click.option("--preprocess-inside", is_flag=True,
              help="Take uint8 images (H, W, 3) of any size; resize, crop and normalise inside.")  # fmt: skip
@click.option("--precision", type=click.Choice(["model", "fp16"]), default="model", show_default=True,
              help="Weights and arithmetic as they are, or in half precision; inputs and outputs stay.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace an existing file.")
@preprocess_options
def build(model: Path, output: Path, force: bool, **flags: Any) -> None:
    """Write MODEL with an explanation inside: image in, its own outputs and a map out.

    The file holds standard operators only. Programs in any language run it with ONNX Runtime and nothing else.
    """
    from gradskip_onnx.output.folder import Folder
    from gradskip_onnx.selfcontained.save import refuse_overwriting, save

    from .console import Terminal

    terminal = Terminal()
    refuse_overwriting(output, force)  # fails before the model is read; `save` checks again
    Folder(output.parent).open()
    built, explainer, settings = built_model(model, flags)
    files = save(built, output, explainer.model.source, force=force)
    terminal.warn(explainer.warnings)
    terminal.print(f"method    {settings.method.label}")
    for file in files:
        terminal.print(f"file      {file}  {file.stat().st_size / 1e6:.1f} MB")


def built_model(model: Path, flags: dict[str, Any]) -> tuple[onnx.ModelProto, Explainer, BuildSettings]:
    """The model with its explanation inside, by the options of `build`."""
    from gradskip_onnx.selfcontained.half_precision import in_half
    from gradskip_onnx.selfcontained.method_file import build as build_file

    from .explain_request import load_explainer

    plain = {"device": "cpu", "require_device": False, "threads": None, "no_cache": True}
    explainer = load_explainer(model, flags | plain, fitted=True)
    settings = _settings(flags, explainer)
    source, reading = explainer.model.source, explainer.model.reading
    if flags["precision"] == "fp16":
        source, reading = in_half(source, reading)
    built = build_file(source, reading, settings, preprocess=explainer.preprocess, labels=explainer.labels)
    return built, explainer, settings


def _settings(flags: dict[str, Any], explainer: Explainer) -> BuildSettings:
    """What is built, by the options; options of the method kept beside the model count as in `explain`."""
    from gradskip_onnx.ingraph.view import View
    from gradskip_onnx.methods import DEFAULT, choose_method, find_method
    from gradskip_onnx.selfcontained.method_file import BuildSettings

    from .options import read_method_options

    row = find_method(flags["method"] or DEFAULT)
    choice = choose_method(row.name, **read_method_options(row.options, flags["pairs"]))
    view = View(flags["map_size"], flags["smoothed"], flags["normalise"])
    return BuildSettings(
        explainer.settled(choice), flags["score"], view, flags["top"] or 0, flags["preprocess_inside"], flags["switch"]
    )
