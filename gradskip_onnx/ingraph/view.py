"""What the file shows of the scores of a method: their size, smoothing and range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradskip_onnx.autodiff.sym import Sym
from gradskip_onnx.types import Size

from .grids import enlarge, no_zero

MapSize = Literal["image", "grid"]


@dataclass(frozen=True, slots=True)
class View:
    """How the map of a built file looks; by default the scores of the method at the size of the model's input."""

    map: MapSize = "image"  # at the size of the model's input, or on the grid of the method's scores
    normalised: bool = False  # the smallest value 0, the largest 1


def show(scores: Sym, size: Size, view: View) -> Sym:
    """The map (B, H, W) or (B, rows, columns) that a file shows of scores (B, rows, columns)."""
    shown = scores if view.map == "grid" else enlarge(scores, size)
    return normalised(shown) if view.normalised else shown


def normalised(x: Sym) -> Sym:
    """`images.interpolate.normalise`: a constant map becomes zeros."""
    low, high = (x.emit.reduce(op, x, [1, 2]) for op in ("ReduceMin", "ReduceMax"))
    return (x - low) / no_zero(high - low)
