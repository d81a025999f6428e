"""Many small tensors of a model through few outputs: ONNX Runtime takes time quadratic in the number of outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import onnx

from gradskip_onnx.types import Array

from .followed_shapes import Shape
from .partial_model import PartialModel

PACK = "gradskip/pack/"
FLAT = f"{PACK}flat"  # [-1], both the shape of a flat tensor and what stands behind each shape: no size is negative
TOGETHER = 256  # tensors in one output

Groups = Mapping[str, Sequence[str]]  # output -> the tensors in it


@dataclass(frozen=True, slots=True, eq=False)
class PackedModel:
    """A model with outputs that hold the shapes of some tensors, and the values of others, one behind the other."""

    model: PartialModel
    measured: Groups
    shown: Groups

    @property
    def outputs(self) -> list[str]:
        return [*self.measured, *self.shown]

    def shapes(self, found: Mapping[str, Array]) -> dict[str, Shape]:
        """The shapes of the measured tensors, from the outputs of a run."""
        shapes: dict[str, Shape] = {}
        for output, tensors in self.measured.items():
            parts = np.split(found[output], np.flatnonzero(found[output] < 0))
            ends = [part[1:] for part in parts[1:-1]]  # each begins with the mark behind the one before
            shapes |= zip(tensors, (tuple(part.tolist()) for part in (parts[0], *ends)), strict=True)
        return shapes

    def values(self, found: Mapping[str, Array], shapes: Mapping[str, Shape]) -> dict[str, Array]:
        """The values shown, from the outputs of a run and the shapes of the tensors in it."""
        values: dict[str, Array] = {}
        for output, tensors in self.shown.items():
            start = 0
            for name in tensors:
                stop = start + prod(shapes[name])
                values[name] = found[output][start:stop].reshape(shapes[name])
                start = stop
        return values


def packed(model: PartialModel, measured: Sequence[str], shown: Mapping[str, np.dtype[Any]]) -> PackedModel:
    """`model` with the shapes of `measured` and the values of `shown`, tensors with their element types, to read."""
    by_type: dict[np.dtype[Any], list[str]] = {}
    for name, dtype in shown.items():
        by_type.setdefault(dtype, []).append(name)
    shapes = {f"{PACK}shapes/{at}": group for at, group in enumerate(_groups([measured]))}
    values = {f"{PACK}values/{at}": group for at, group in enumerate(_groups(by_type.values()))}
    nodes = list(model.nodes)
    for output, tensors in shapes.items():
        nodes += (onnx.helper.make_node("Shape", [name], [f"{PACK}shape/{name}"]) for name in tensors)
        parts = [part for name in tensors for part in (f"{PACK}shape/{name}", FLAT)]
        nodes.append(onnx.helper.make_node("Concat", parts, [output], axis=0))
    for output, tensors in values.items():
        nodes += (onnx.helper.make_node("Reshape", [name, FLAT], [f"{PACK}flat/{name}"]) for name in tensors)
        nodes.append(onnx.helper.make_node("Concat", [f"{PACK}flat/{name}" for name in tensors], [output], axis=0))
    flat = onnx.numpy_helper.from_array(np.array([-1], np.int64), FLAT)
    return PackedModel(replace(model, nodes=nodes, stored={**model.stored, FLAT: flat}), shapes, values)


def _groups(kinds: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Each of `kinds` in groups small enough for one output."""
    return [kind[start : start + TOGETHER] for kind in kinds for start in range(0, len(kind), TOGETHER)]
