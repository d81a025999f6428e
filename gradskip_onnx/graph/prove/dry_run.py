"""Dry runs that measure the shape of every tensor, and the values of constant ones.

Shapes are measured, not inferred: inference fails on many real exports (shape arithmetic, custom domains), and runs
at two batch sizes also tell which dimensions follow the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
import onnx

from gradskip_onnx.errors import InputError, ModelError, UnsupportedModelError
from gradskip_onnx.graph.read.image_input import ImageInput
from gradskip_onnx.limits import DRY_RUN, RUN_BYTES
from gradskip_onnx.types import EMPTY, Array, TensorFact

from .followed_shapes import Shape, follow, unfollowed
from .inferred_types import Tensors, foreseen, infer, refuse_large, refuse_memory
from .packed_outputs import packed
from .partial_model import PartialModel
from .shape_twin import shape_twin

NO_TENSOR = ("Sequence", "Optional", "SplitToSequence")  # operators whose outputs are no tensors and have no shape
SMALL = 4096  # elements; larger constants are not folded
SPECIAL_NAMES = {"float": "float32", "double": "float64"}  # ONNX Runtime's names that differ from NumPy's
PLAIN_NAMES = ("float16", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = SPECIAL_NAMES | {name: name for name in PLAIN_NAMES}

Shapes = dict[str, Shape]


@dataclass(frozen=True, slots=True, eq=False)
class DryRun:
    """Result of one run: shapes and types of all tensors, and values of the requested ones."""

    model: PartialModel
    image: ImageInput
    size: tuple[int, int]
    dtypes: Mapping[str, np.dtype[Any]]
    shapes: Shapes
    values: Mapping[str, Array]
    most_bytes: int | None  # bound of the memory of its tensors; None: their sizes were all known before

    @property
    def facts(self) -> dict[str, TensorFact]:
        """Shapes and element types; one run does not tell which dimensions follow the batch."""
        return {name: TensorFact(self.shapes[name], dtype) for name, dtype in self.dtypes.items()}

    def bytes_of(self, name: str) -> int:
        """What a tensor takes in this run."""
        return prod(self.shapes[name]) * self.dtypes[name].itemsize


def make_dry_run(model: PartialModel, image: ImageInput, look: Iterable[str] = ()) -> DryRun:
    """Run a model once on noise and keep the values of tensors in `look`; an open image size is the first that runs."""
    tensors = _tensors(model)
    first = infer(model, image, image.sizes[0])
    dtypes = _dtypes(model, tensors, first)
    names = [name for name in dict.fromkeys(look) if name in dtypes]
    most_bytes = None if foreseen(first, tensors) else RUN_BYTES.amount
    run = _open(model, image, tensors, most_bytes, show=names)
    for size in image.sizes:
        refuse_memory(model, first if size == image.sizes[0] else infer(model, image, size))
        images = image.probe(size, image.batch or 1)
        try:
            shapes, values = run(images)
        except InputError as failure:
            refusal = failure
        else:
            return DryRun(model, image, size, dtypes, shapes, values | {image.name: images}, most_bytes)
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
    unlike = next((name for name in single if len(single[name]) != len(double[name])), None)
    if unlike is not None:  # such as a Squeeze of whatever axis has one entry
        why_single = f"{unlike!r} is of shape {single[unlike]} for one image, {double[unlike]} for two"
        double, second = single, first
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
    twin = shape_twin(dry_run.model, dry_run.facts, activations)
    try:
        runs, failure = _runs(dry_run, twin, small)
    except (InputError, ModelError):  # the caller runs the model itself, which raises the real error
        return None
    return (runs, "") if not failure and runs[0][0] == dry_run.shapes else None


def _runs(dry_run: DryRun, model: PartialModel, small: Sequence[str]) -> tuple[Runs, str]:
    """Shapes of all tensors and values of `small` ones at the fixed batch size, or with one image and with two.

    Also returns why the run with two images fails, if it does. `model` is that of the dry run or its shape twin.
    """
    image = dry_run.image
    pack = {name: dry_run.dtypes[name] for name in small}
    most_bytes = dry_run.most_bytes and 2 * dry_run.most_bytes  # for two images
    run = _open(dry_run.model, image, list(dry_run.shapes), most_bytes, pack=pack, instead=model)
    probe = partial(image.probe, dry_run.size)
    runs = [run(probe(batch := image.batch or 1, seed=batch))]
    if image.batch is None:
        try:
            runs.append(run(probe(2, seed=2)))
        except InputError as failure:
            return runs, str(failure)
    return runs, ""


def _tensors(model: PartialModel) -> list[str]:
    return [t for node in model.nodes if not node.op_type.startswith(NO_TENSOR) for t in node.output if t]


def _open(
    model: PartialModel,
    image: ImageInput,
    tensors: Sequence[str],
    most_bytes: int | None,
    *,
    show: Sequence[str] = (),
    pack: Mapping[str, np.dtype[Any]] = EMPTY,
    instead: PartialModel | None = None,
) -> Callable[[Array], tuple[Shapes, dict[str, Array]]]:
    """A function from images to the shapes of `tensors` and the values of `show` and `pack`, the latter all small.

    `instead` is a model with the same shapes that is run in the place of `model`. A run that takes more than
    `most_bytes` is ended with an error.
    """
    stored = {name: tuple(tensor.dims) for name, tensor in model.stored.items()}
    measured = unfollowed(model.nodes, tensors, {**stored, image.name: ()})
    shown = packed(instead or model, measured, pack)
    outputs = [*show, *shown.outputs]
    session = shown.model.open(outputs, most_bytes=most_bytes)

    def run(images: Array) -> tuple[Shapes, dict[str, Array]]:
        found = session.run(outputs, {image.name: images}, DRY_RUN.amount)
        known = {**stored, image.name: images.shape, **shown.shapes(found)}
        shapes = follow(model.nodes, tensors, known)
        return shapes, {name: found[name] for name in show} | shown.values(found, shapes)

    return run


def _dtypes(model: PartialModel, tensors: Sequence[str], inferred: Tensors) -> dict[str, np.dtype[Any]]:
    """Element types: those inferred, and for tensors behind operators of ONNX Runtime's own, what it says itself."""
    names = {name: onnx.TensorProto.DataType.Name(kind.elem_type).lower() for name, kind in inferred.items()}
    unknown = [name for name in tensors if name not in names]
    if unknown:
        outputs = model.open(unknown).handle.get_outputs()  # never run, since it would hold all of them
        refuse_large(model, {entry.name: entry.shape for entry in outputs})
        names |= {entry.name: entry.type.removeprefix("tensor(").removesuffix(")") for entry in outputs}
    return {name: np.dtype(DTYPES[names[name]]) for name in tensors if names[name] in DTYPES}
