"""What the file shows of the scores of a method: their size, smoothing and range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradskip_onnx.autodiff.sym import Sym
from gradskip_onnx.drawing.heat_map import blur_unit
from gradskip_onnx.drawing.style import DEFAULT_STYLE
from gradskip_onnx.errors import InputError
from gradskip_onnx.types import Architecture

from .blur import smooth
from .grids import enlarge, no_zero

MapSize = Literal["image", "grid"]


@dataclass(frozen=True, slots=True)
class View:
    """How the map of a built file looks; by default the scores of the method at the size of the model's input."""

    map: MapSize = "image"  # at the size of the model's input, or on the grid of the method's scores
    smoothed: bool = False  # for the eye, as pictures are
    normalised: bool = False  # the smallest value 0, the largest 1

    def __post_init__(self) -> None:
        if self.smoothed and self.map != "image":
            raise InputError("a smoothed map has the size of the image; leave out the grid")


def show(scores: Sym, architecture: Architecture, view: View) -> Sym:
    """The map (B, H, W) or (B, rows, columns) that a file shows of scores (B, rows, columns)."""
    size = architecture.input_dims.size
    shown = scores if view.map == "grid" else enlarge(scores, size)
    if view.smoothed:
        shown = smooth(shown, sigmas(architecture))
    return normalised(shown) if view.normalised else shown


def sigmas(architecture: Architecture) -> tuple[float, float]:
    """Standard deviations of the blur of pictures, in pixels of the model's input."""
    (height, width), grid = architecture.input_dims.size, architecture.grid
    down, across = blur_unit((height / grid.rows, width / grid.columns), (height, width))
    return DEFAULT_STYLE.smoothing * down, DEFAULT_STYLE.smoothing * across


def normalised(x: Sym) -> Sym:
    """`images.interpolate.normalise`: a constant map becomes zeros."""
    low, high = (x.emit.reduce(op, x, [1, 2]) for op in ("ReduceMin", "ReduceMax"))
    return (x - low) / no_zero(high - low)
