"""From entries to cases: an image as the model takes it, the class explained, and the ground truth for that class."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.api import Explainer
from gradskip_onnx.datasets import Dataset, Entry
from gradskip_onnx.errors import GradskipError, InputError
from gradskip_onnx.images.classes import find_class
from gradskip_onnx.images.preprocess import Geometry, prepare
from gradskip_onnx.metrics import Sample, Score
from gradskip_onnx.pipeline.batch import attempt
from gradskip_onnx.tasks import Task, task_of
from gradskip_onnx.types import Array

from .forward import Forward
from .truth import areas_of, boxes_of, mask_of, shown_classes

MOST_PATCHES = 32  # a side: tokens finer than that are removed by the square, or nothing would change
TARGETS = ("predicted", "label")


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One image and class."""

    sample: Sample
    score: Score  # of the class, as metrics ask for it; remembers what does not depend on the method


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """An entry read: its cases, or why there are none."""

    entry: Entry
    cases: tuple[Case, ...] = ()
    excluded: str = ""
    error: str = ""


def resolve_labels(dataset: Dataset, explainer: Explainer, *, required: bool) -> tuple[dict[str, int], list[str]]:
    """Class index by entry, and warnings; a name that the model does not know is an error only if labels are needed."""
    found: dict[str, int] = {}
    lost: dict[str | int, str] = {}
    known: dict[str | int, int] = {}
    for entry in dataset.entries:
        if entry.label is None or entry.label in lost:
            continue
        if entry.label not in known:
            try:
                known[entry.label] = find_class(entry.label, explainer.labels, explainer.architecture.classes) or 0
            except InputError as error:
                if required:
                    raise InputError(f"{entry.id}: {error}") from None
                lost[entry.label] = str(error)
                continue
        found[entry.id] = known[entry.label]
    if required and not found and all(entry.areas is None for entry in dataset.entries):
        raise InputError(f"{dataset.where}: no image has a label, but the class of the label is to be explained")
    first = next(iter(lost.values()), "")
    return found, [f"{len(lost)} labels of the dataset are unused: {first}"] if lost else []


def patch_side(explainer: Explainer) -> int:
    """Side of the feature removed as one, in pixels."""
    height = explainer.architecture.input_dims.height
    side = max(1, height // explainer.architecture.grid.rows)
    while height // side > MOST_PATCHES:
        side *= 2
    return side


def seed_of(identity: str) -> int:
    """The seed of everything random about an image; nothing but its id decides it."""
    return int.from_bytes(hashlib.sha256(os.fsencode(identity)).digest()[:4], "big")


def prepare_group(
    entries: Sequence[Entry], explainer: Explainer, forward: Forward, labels: Mapping[str, int], target: str
) -> list[Prepared]:
    """Read, prepare and classify a group of images; one that cannot be read fails alone."""
    read = [attempt(lambda each: prepare(each.read(), explainer.preprocess), entry) for entry in entries]
    arrays = [each[0] for each in read if not isinstance(each, GradskipError)]
    logits = iter(forward.logits(np.stack(arrays)) if arrays else ())
    found = []
    for entry, each in zip(entries, read, strict=True):
        if isinstance(each, GradskipError):
            found.append(Prepared(entry, error=str(each)))
            continue
        try:
            found.append(_cases(entry, explainer, forward, *each, next(logits), labels.get(entry.id), target))
        except InputError as error:
            found.append(Prepared(entry, error=str(error)))
    return found


def _cases(
    entry: Entry,
    explainer: Explainer,
    forward: Forward,
    image: Array,
    geometry: Geometry,
    logits: Array,
    label: int | None,
    target: str,
) -> Prepared:
    size = (image.shape[1], image.shape[2])
    areas = areas_of(entry, label, geometry, size)
    targets = _targets(task_of(explainer.architecture), logits, label, target, areas)
    if isinstance(targets, str):
        return Prepared(entry, excluded=targets)
    made = [
        Sample(
            id=entry.id,
            image=image,
            target=each,
            label=label,
            boxes=boxes_of(entry, label, each, geometry, size),
            mask=mask_of(areas, each),
            mean=explainer.preprocess.mean,
            std=explainer.preprocess.std,
            patch=patch_side(explainer),
            seed=seed_of(entry.id),
        )
        for each in targets
    ]
    return Prepared(entry, tuple(Case(sample, forward.score(logits, sample.target)) for sample in made))


def _targets(task: Task, logits: Array, label: int | None, target: str, areas: Array | None) -> list[int] | str:
    """The classes to explain, or why there are none."""
    if target == "predicted":
        return [int(task.predicted(logits[None])[0])]
    return TRUE_CLASSES[task.name](logits, label, areas)


def _labelled(_logits: Array, label: int | None, _areas: Array | None) -> list[int] | str:
    return "the image has no label" if label is None else [label]


def _shown(logits: Array, _label: int | None, areas: Array | None) -> list[int] | str:
    return shown_classes(areas, logits) or "no class is both there and predicted"


TRUE_CLASSES: Mapping[str, Callable[[Array, int | None, Array | None], list[int] | str]] = {
    "classification": _labelled,
    "segmentation": _shown,
}
