"""Dry runs in which every tensor can be looked at: shapes, element types, and values that never change.

Shapes are seen, not inferred: inference fails on many real exports (shape arithmetic, custom domains), and a run at
two batch sizes also tells which dimensions follow the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from ..errors import InputError, UnsupportedModelError
from ..session import Session, open_session
from ..types import Array, TensorFact
from .image_input import ImageInput

SHAPE = "gradskip/shape/"
NO_TENSOR = ("Sequence", "Optional", "SplitToSequence")  # their outputs have no shape to ask for
SMALL = 4096  # elements; larger constants are left where they are
SPECIAL_NAMES = {"float": "float32", "double": "float64"}  # ONNX Runtime's words for NumPy's
PLAIN_NAMES = ("float16", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = SPECIAL_NAMES | {name: name for name in PLAIN_NAMES}


@dataclass(frozen=True, slots=True, eq=False)
class Rehearsal:
    """A model opened with all its tensors as outputs."""

    session: Session
    image: ImageInput
    size: tuple[int, int]
    tensors: tuple[str, ...]
    dtypes: Mapping[str, np.dtype[Any]]

    def shapes(self, batch: int) -> dict[str, tuple[int, ...]]:
        """The shape of every tensor for a batch of this size."""
        feeds = {self.image.name: self.image.probe(self.size, batch)}
        seen = self.session.run([SHAPE + name for name in self.tensors], feeds)
        return {name: tuple(int(d) for d in seen[SHAPE + name]) for name in self.tensors}

    def values(self, names: Iterable[str], images: Array) -> dict[str, Array]:
        """The values of some tensors for these images."""
        wanted = list(dict.fromkeys(names))
        if self.image.name in wanted:
            wanted.remove(self.image.name)
        return {self.image.name: images} | self.session.run(wanted, {self.image.name: images})


def rehearse(graph: gs.Graph, image: ImageInput, folder: Path | None) -> Rehearsal:
    """Open a graph for looking at; finds the first image size that runs where the file leaves it open."""
    model = gs.export_onnx(graph, do_type_check=False)
    tensors = [t for node in model.graph.node if not node.op_type.startswith(NO_TENSOR) for t in node.output if t]
    del model.graph.output[:]
    del model.graph.value_info[:]  # stale shapes in a file must not contradict what a run shows
    for name in tensors:
        model.graph.node.append(onnx.helper.make_node("Shape", [name], [SHAPE + name]))
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for t in tensors for n in (t, SHAPE + t))
    session = open_session(model, folder, "cpu", optimise=False)
    types = {out.name: out.type.removeprefix("tensor(").removesuffix(")") for out in session.handle.get_outputs()}
    dtypes = {name: np.dtype(DTYPES[types[name]]) for name in tensors if types[name] in DTYPES}
    for size in image.sizes:
        rehearsal = Rehearsal(session, image, size, tuple(tensors), dtypes)
        try:
            rehearsal.session.run([SHAPE + tensors[-1]], {image.name: image.probe(size, image.batch or 1)})
        except InputError as failure:
            refusal = failure
        else:
            return rehearsal
    tried = ", ".join(f"{h}x{w}" for h, w in image.sizes)
    raise UnsupportedModelError(
        "does-not-run",
        f"the model runs on none of the image sizes tried ({tried}), give --size; last reason: {refusal}",
    )


def observe(rehearsal: Rehearsal) -> tuple[dict[str, TensorFact], dict[str, tuple[int, ...]]]:
    """Facts on every tensor (a dimension that follows the batch is None) and the shapes for one batch."""
    if rehearsal.image.batch is not None:
        single = rehearsal.shapes(rehearsal.image.batch)
        double = single
    else:
        single, double = rehearsal.shapes(1), rehearsal.shapes(2)
    facts = {}
    for name, dtype in rehearsal.dtypes.items():
        dims = tuple(a if a == b else None for a, b in zip(single[name], double[name], strict=True))
        facts[name] = TensorFact(dims, dtype)
    batch = rehearsal.image.batch
    facts[rehearsal.image.name] = TensorFact((batch, *rehearsal.image.dims(rehearsal.size)), rehearsal.image.dtype)
    return facts, single


def constants(rehearsal: Rehearsal, facts: Mapping[str, TensorFact], activations: Iterable[str]) -> dict[str, Array]:
    """Small tensors that follow neither from the image nor from the batch size: shape arithmetic, mostly."""
    follow = set(activations)
    names = [
        name
        for name, fact in facts.items()
        if name not in follow and None not in fact.dims and prod(size or 0 for size in fact.dims) <= SMALL
    ]
    batches = [rehearsal.image.batch] if rehearsal.image.batch is not None else [1, 2]
    runs = [rehearsal.values(names, rehearsal.image.probe(rehearsal.size, batch, seed=batch)) for batch in batches]
    return {name: runs[0][name] for name in names if all(np.array_equal(runs[0][name], run[name]) for run in runs[1:])}
