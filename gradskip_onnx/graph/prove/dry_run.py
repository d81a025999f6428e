"""Dry runs that measure the shape and element type of every tensor, and the values of constant ones.

Shapes are measured, not inferred: inference fails on many real exports (shape arithmetic, custom domains), and runs
at two batch sizes also tell which dimensions follow the batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import onnx

from gradskip_onnx.errors import InputError, ModelError, UnsupportedModelError
from gradskip_onnx.graph.read.image_input import ImageInput
from gradskip_onnx.limits import DRY_RUN, ELEMENTS
from gradskip_onnx.runtime.session import Session
from gradskip_onnx.types import Array, TensorFact

from .partial_model import PartialModel
from .shape_twin import shape_twin

SHAPE = "gradskip/shape/"
NO_TENSOR = ("Sequence", "Optional", "SplitToSequence")  # operators whose outputs are no tensors and have no shape
SMALL = 4096  # elements; larger constants are not folded
SPECIAL_NAMES = {"float": "float32", "double": "float64"}  # ONNX Runtime's names that differ from NumPy's
PLAIN_NAMES = ("float16", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = SPECIAL_NAMES | {name: name for name in PLAIN_NAMES}

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class DryRun:
    """Result of one run: shapes and types of all tensors, and values of the requested ones."""

    model: PartialModel
    image: ImageInput
    size: tuple[int, int]
    dtypes: Mapping[str, np.dtype[Any]]
    shapes: Shapes
    values: Mapping[str, Array]

    @property
    def facts(self) -> dict[str, TensorFact]:
        """Shapes and element types; one run does not tell which dimensions follow the batch."""
        return {name: TensorFact(self.shapes[name], dtype) for name, dtype in self.dtypes.items()}


def make_dry_run(model: PartialModel, image: ImageInput, look: Iterable[str] = ()) -> DryRun:
    """Run a model once on noise and keep the values of tensors in `look`; an open image size is the first that runs."""
    tensors = _tensors(model)
    dtypes = _dtypes(model, tensors)
    names = [name for name in dict.fromkeys(look) if name in dtypes]
    session = _with_shapes(model, tensors).open([*names, *(SHAPE + tensor for tensor in tensors)])
    for size in image.sizes:
        images = image.probe(size, image.batch or 1)
        try:
            shapes, values = _run(session, tensors, names, {image.name: images})
        except InputError as failure:
            refusal = failure
        else:
            return DryRun(model, image, size, dtypes, shapes, values | {image.name: images})
    tried = ", ".join(f"{h}x{w}" for h, w in image.sizes)
    raise UnsupportedModelError(
        "does-not-run",
        f"the model runs on none of the image sizes tried ({tried}), give --size; last reason: {refusal}",
    )


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """Facts on every tensor, and the values of small constant ones.

    A dimension that follows the batch is None. Constant tensors, mostly shape arithmetic, depend neither on the image
    nor on the batch size.
    """

    facts: Mapping[str, TensorFact]
    constants: Mapping[str, Array]
    why_single: str = ""  # why a second image fails in a file that leaves the batch open; its batch is then 1


def observe(dry_run: DryRun, activations: Collection[str]) -> Observed:
    """Run a model with one image and with two; a file that cannot run two counts as one for single images."""
    image = dry_run.image
    small = [
        name
        for name in dry_run.dtypes
        if name not in activations and prod(dry_run.shapes[name]) <= SMALL
    ]  # fmt: skip
    runs, why_single = _twin_runs(dry_run, activations, small) or _runs(dry_run, dry_run.model, small)
    (single, first), (double, second) = runs[0], runs[-1]
    facts = {}
    for name, dtype in dry_run.dtypes.items():
        dims = tuple(a if a == b else None for a, b in zip(single[name], double[name], strict=True))
        facts[name] = TensorFact(dims, dtype)
    batch = 1 if why_single else image.batch
    facts[image.name] = TensorFact((batch, *image.dims(dry_run.size)), image.dtype)
    constants = {name: first[name] for name in small if np.array_equal(first[name], second[name])}
    return Observed(facts, constants, why_single)


Runs = list[tuple[Shapes, dict[str, Array]]]


def _twin_runs(dry_run: DryRun, activations: Collection[str], small: Sequence[str]) -> tuple[Runs, str] | None:
    """`_runs` of the shape twin; None if any fails or its shapes are not those of the model."""
    twin = shape_twin(dry_run.model, dry_run.shapes, activations)
    try:
        runs, failure = _runs(dry_run, twin, small)
    except (InputError, ModelError):  # the caller runs the model itself, which raises the real error
        return None
    return (runs, "") if not failure and runs[0][0] == dry_run.shapes else None


def _runs(dry_run: DryRun, model: PartialModel, small: Sequence[str]) -> tuple[Runs, str]:
    """Shapes of all tensors and values of `small` ones at the fixed batch size, or with one image and with two.

    Also returns why the run with two images fails, if it does.
    """
    image, tensors = dry_run.image, list(dry_run.shapes)
    session = _with_shapes(model, tensors).open([*small, *(SHAPE + tensor for tensor in tensors)])

    def run(batch: int) -> tuple[Shapes, dict[str, Array]]:
        return _run(session, tensors, small, {image.name: image.probe(dry_run.size, batch, seed=batch)})

    runs = [run(image.batch or 1)]
    if image.batch is None:
        try:
            runs.append(run(2))
        except InputError as failure:
            return runs, str(failure)
    return runs, ""


def _tensors(model: PartialModel) -> list[str]:
    return [t for node in model.nodes if not node.op_type.startswith(NO_TENSOR) for t in node.output if t]


def _dtypes(model: PartialModel, tensors: Sequence[str]) -> dict[str, np.dtype[Any]]:
    """Element types, from a session with all tensors as outputs; it is never run, since it would hold all of them."""
    session = model.open(tensors)
    _check_sizes(model, session)
    types = {entry.name: entry.type for entry in session.handle.get_outputs()}
    plain = {name: type_.removeprefix("tensor(").removesuffix(")") for name, type_ in types.items()}
    return {name: np.dtype(DTYPES[plain[name]]) for name in tensors if plain[name] in DTYPES}


def _check_sizes(model: PartialModel, session: Session) -> None:
    """Refuse a tensor that would be too large, as far as ONNX Runtime can tell sizes without a run."""
    for entry in session.handle.get_outputs():
        count = prod(size if isinstance(size, int) else 1 for size in entry.shape)
        if count > ELEMENTS.amount:
            maker = next(node for node in model.nodes if entry.name in node.output)
            ELEMENTS.check(count, f"node {maker.name!r} ({maker.op_type}): its output {entry.name!r}")


def _with_shapes(model: PartialModel, tensors: Sequence[str]) -> PartialModel:
    return replace(
        model, nodes=[*model.nodes, *(onnx.helper.make_node("Shape", [name], [SHAPE + name]) for name in tensors)]
    )


def _run(
    session: Session, tensors: Sequence[str], names: Sequence[str], feeds: Mapping[str, Array]
) -> tuple[Shapes, dict[str, Array]]:
    outputs = session.run([*(SHAPE + name for name in tensors), *names], feeds, DRY_RUN.amount)
    shapes = {name: tuple(outputs[SHAPE + name].tolist()) for name in tensors}
    return shapes, {name: outputs[name] for name in names}
