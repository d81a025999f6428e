"""The options of `explain` that say which files are written, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from .options import read_folder, stack
from .picture_options import read_style

if TYPE_CHECKING:
    from gradskip_onnx.explanation.files import FileSettings

KINDS = ("png", "npy", "json")  # those of output.folder.KINDS, without importing it for --help


def read_kinds(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, ...]:
    """Kinds of files from a list such as png,json."""
    named = [word.strip().lstrip(".").lower() for word in value.split(",")]
    for word in named:
        if word not in KINDS:
            raise click.BadParameter(f"{word!r:.80} is no kind of file; write one or more of {','.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in named)


file_options = stack(
    click.option("-o", "--output", callback=read_folder, default="gradskip-out", show_default=True, metavar="DIR",
                 help="Folder for <stem>.png, <stem>.npy and <stem>.json; for several images also index.html and "
                 "summary.csv. Images done before with the same model and options are skipped."),
    click.option("--force", is_flag=True, help="Overwrite files of that name, and skip nothing."),
    click.option("--write", "kinds", callback=read_kinds, default=",".join(KINDS), show_default=True,
                 metavar="KINDS", help="Files to write: figure, map, facts."),
    click.option("--map", "map_size", type=click.Choice(["image", "grid"]), default="image", show_default=True,
                 help="The map at the size of the image, or on the model's grid."),
    click.option("--map-dtype", type=click.Choice(["float32", "float16"]), default="float32", show_default=True,
                 help="Numbers of the map; float16 is divided by the map.scale of the .json."),
)  # fmt: skip


def read_file_settings(flags: Mapping[str, Any]) -> FileSettings:
    """The files that the options describe."""
    from gradskip_onnx.explanation.files import FileSettings

    return FileSettings(flags["kinds"], flags["map_size"], flags["map_dtype"], read_style(flags))
