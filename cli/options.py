"""Options that several commands share, and functions that read their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from gradskip_onnx.limits import INPUT_SIDE

F = TypeVar("F", bound=Callable[..., Any])

TASK_NAMES = ("classification", "segmentation")  # the keys of tasks.TASKS
RESIZES = ("shorter", "stretch", "pad")  # those of preprocess.RESIZES
INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos", "box", "hamming")  # preprocess.INTERPOLATIONS
PREPROCESS_FLAGS = ("mean", "std", "size", "crop", "resize", "interpolation", "channels")
PRESET_NAMES = ("imagenet", "half", "clip", "none")  # the keys of preprocess.PRESETS, without importing it for --help


def read_size(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """(height, width) from N, a square, or HEIGHTxWIDTH."""
    if value is None:
        return None
    match = re.fullmatch(r"0*([1-9][0-9]{0,4})(?:[xX,]0*([1-9][0-9]{0,4}))?", value)
    if match is None:
        raise click.BadParameter(f"{value!r:.80} is not a size; write 224 or 224x320 (height x width)")
    height, width = int(match[1]), int(match[2] or match[1])
    if max(height, width) > INPUT_SIDE.amount:
        raise click.BadParameter(f"{value!r}: at most {INPUT_SIDE.amount} pixels a side")
    return height, width


def read_folder(_ctx: click.Context, _param: click.Parameter, value: str) -> Path:
    """A folder for results; an empty text, as of a variable that is not set, would mean the working folder."""
    if not value:
        raise click.BadParameter("an empty name; write . for the working folder")
    return Path(value)


def read_device(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Check the form of a device: auto, cpu, cuda or cuda:N; whether it exists is checked later."""
    if re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", value) is None:
        raise click.BadParameter(f"{value!r} is not a device; write auto, cpu, cuda or cuda:N")
    return value


def stack(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Several decorators as one; the help lists their options in the same order."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


model_argument = click.argument("model", type=click.Path(path_type=Path))

device_options = stack(
    click.option(
        "--device",
        default="auto",
        show_default=True,
        callback=read_device,
        metavar="auto|cpu|cuda[:N]",
        help="Where to run.",
    ),
    click.option("--require-device", is_flag=True, help="Fail (exit 4) instead of falling back to the CPU."),
    click.option("--threads", type=click.IntRange(min=1), metavar="N", help="CPU threads.  [default: all cores]"),
    click.option("--no-cache", is_flag=True, help="Analyse the model anew, and store nothing in the cache."),
)

task_option = click.option(
    "--task",
    type=click.Choice(TASK_NAMES),
    help="What the output holds, where the file does not say: class scores of the image or of each pixel.",
)

preprocess_options = stack(
    task_option,
    click.option("--preset", type=click.Choice(PRESET_NAMES), help="Mean and std by name."),
    click.option("--mean", nargs=3, type=float, metavar="R G B", help="Subtracted, on values 0 to 1."),
    click.option("--std", nargs=3, type=float, metavar="R G B", help="Divided by, after the mean."),
    click.option("--size", callback=read_size, metavar="N|HxW", help="Input size, for models that take any."),
    click.option("--crop", type=float, metavar="FRACTION", help="Share of the resized image kept by the centre crop."),
    click.option(
        "--resize",
        type=click.Choice(RESIZES),
        help="What fits the input: the shorter side (the rest is cropped), both, or the longer one (padded).",
    ),
    click.option("--interpolation", type=click.Choice(INTERPOLATIONS), help="How pixels are resampled."),
    click.option("--channels", type=click.Choice(["rgb", "bgr"]), help="Order of the channels that the model takes."),
    click.option(
        "--labels", type=click.Path(path_type=Path), metavar="FILE", help="Class names: a line each, or JSON."
    ),
)

verbosity_options = stack(
    click.option("-v", "--verbose", is_flag=True, help="Say more: settings, notes, timings."),
    click.option("-q", "--quiet", is_flag=True, help="No progress and no warnings."),
)

json_option = click.option("--json", "as_json", is_flag=True, help="Results as JSON on standard output.")
json_lines_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Results on standard output: one image as a JSON document, several as JSON Lines, a document a line.",
)


def preprocess_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of Preprocess that the options set; single values override the preset."""
    from gradskip_onnx.images.preprocess import PRESETS

    single = {name: flags[name] for name in PREPROCESS_FLAGS if flags[name] is not None}
    return (PRESETS[flags["preset"]] if flags["preset"] else {}) | single


def read_method_options(options: type[Any], pairs: tuple[str, ...]) -> dict[str, Any]:
    """Values by name from NAME=VALUE texts; each has the type of the field in `options`, a dataclass."""
    from dataclasses import fields

    from gradskip_onnx.errors import InputError

    by_name = {field.name: field for field in fields(options)}
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if name not in by_name or not equals:
            raise InputError(f"option {pair!r}: write NAME=VALUE, NAME one of {', '.join(by_name) or '(none)'}")
        values[name] = _value(name, text, type(by_name[name].default))
    return values


def _value(name: str, text: str, kind: type[Any]) -> Any:
    from gradskip_onnx.errors import InputError

    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    try:
        return words[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        raise InputError(f"option {name}: {text!r} is not a value of type {kind.__name__}") from None
