"""The options of a picture, the same as the fields of PictureStyle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from .options import stack

if TYPE_CHECKING:
    from gradskip_onnx.drawing.style import PictureStyle

PALETTE_NAMES = ("heat", "fire", "forest", "white")  # the keys of colours.PALETTES, without importing it for --help
OPTIONS = {"size": "figure_size"}  # field of PictureStyle -> its option, where they differ: --size is the input's

picture_options = stack(
    click.option("--palette", type=click.Choice(PALETTE_NAMES), help="Colours; the brightest is the strongest.  "
                 "[default: heat]"),
    click.option("--opacity", type=float, metavar="0..1", help="How far the strongest colour covers the photograph.  "
                 "[default: 0.9]"),
    click.option("--smoothing", type=float, metavar="PATCHES", help="Blur for the eye, 0 for none; the .npy file "
                 "is not smoothed.  [default: 0.4]"),
    click.option("--outline", type=float, metavar="SHARE", help="Share of the positive relevance inside the line, "
                 "0 for no line.  [default: 0.5]"),
    click.option("--overlay-only", is_flag=True, default=None, help="The overlay alone: no panels, title or legend."),
    click.option("--signed/--unsigned", default=None, help="Draw relevance against the class, or do not.  "
                 "[default: where it is above a tenth]"),
    click.option("--cutout/--no-cutout", default=None, help="A panel with the outlined area alone.  "
                 "[default: where it is small]"),
    click.option("--figure-size", type=int, metavar="PIXELS", help="Longer side of a panel.  [default: that of the "
                 "image, 336 to 800]"),
    click.option("--numbers", is_flag=True, default=None, help="Values of the map in the legend."),
)  # fmt: skip


def read_style(flags: Mapping[str, Any]) -> PictureStyle:
    """The style that the options describe; what was not given keeps its default."""
    from dataclasses import fields

    from gradskip_onnx.drawing.style import PictureStyle

    given = {field.name: flags[OPTIONS.get(field.name, field.name)] for field in fields(PictureStyle)}
    return PictureStyle(**{name: value for name, value in given.items() if value is not None})
