"""The grids to which a quantised file rounds a tensor on its way: how wide a step is, and where values saturate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.graph.index import Index
from gradskip_onnx.operators import Kind, of_kind
from gradskip_onnx.types import Array

ROUNDERS = of_kind(Kind.QUANTISES)


@dataclass(frozen=True, slots=True)
class ValueGrid:
    """Values lowest, lowest + step, ..., highest; what lies outside saturates."""

    step: float
    lowest: float
    highest: float


def find_grids(lookup: Index, start: str, end: str, values: Mapping[str, Array]) -> list[ValueGrid] | None:
    """The grids between two tensors; None if one is not known, or differs from channel to channel.

    `values` has the scales and zero points that are found at run time.
    """
    grids = []
    for node in lookup.between(start, end):
        if node.op in ROUNDERS:
            place = node.outputs[1:] if node.op == "DynamicQuantizeLinear" else node.inputs[1:]
            numbers = [number for tensor in place if (number := _value(tensor, values)) is not None]
            if len(numbers) != 2 or any(number.size != 1 for number in numbers):
                return None
            grids.append(grid_of(*numbers))
    return grids


def _value(tensor: Any, values: Mapping[str, Array]) -> Array | None:
    return np.asarray(tensor.values) if isinstance(tensor, gs.Constant) else values.get(tensor.name)


def grid_of(scale: Array, zero: Array) -> ValueGrid:
    """The grid of a scale and a zero point, one number each."""
    step, middle, ends = float(scale.item()), int(zero.item()), np.iinfo(zero.dtype)
    return ValueGrid(step, step * (ends.min - middle), step * (ends.max - middle))


def saturate(array: Array, grids: Sequence[ValueGrid]) -> tuple[Array, float]:
    """`array` cut off at the ends of the grids, and the share of its entries that lie outside by more than rounding."""
    wide = array.astype(np.float64)
    outside = np.zeros(wide.shape, bool)
    for grid in grids:
        outside |= (wide > grid.highest + grid.step / 2) | (wide < grid.lowest - grid.step / 2)
        wide = np.clip(wide, grid.lowest, grid.highest)
    return wide, float(outside.mean())
