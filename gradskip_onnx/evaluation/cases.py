"""Turns dataset entries into cases: the preprocessed image, the class to explain and its ground truth."""

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

MOST_PATCHES = 32  # per side; finer tokens are removed in larger squares, because a single one changes nothing
TARGETS = ("predicted", "label")


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One image and one class to explain in it."""

    sample: Sample
    score: Score  # probability of the class for a batch of images; caches what does not depend on the method


@dataclass(frozen=True, slots=True, eq=False)
class PreparedEntry:
    """An entry with its cases, or with the reason why it has none: it is excluded, or could not be read."""

    entry: Entry
    cases: tuple[Case, ...] = ()
    excluded: str = ""
    error: str = ""


def resolve_labels(dataset: Dataset, explainer: Explainer, *, required: bool) -> tuple[dict[str, int], list[str]]:
    """Class index by entry id, and warnings; a label that the model does not know raises only if `required`."""
    found: dict[str, int] = {}
    unknown: dict[str | int, str] = {}  # label -> why it has no index
    indices: dict[str | int, int] = {}  # label -> class index
    for entry in dataset.entries:
        if entry.label is None or entry.label in unknown:
            continue
        if entry.label not in indices:
            try:
                indices[entry.label] = find_class(entry.label, explainer.labels, explainer.architecture.classes) or 0
            except InputError as error:
                if required:
                    raise InputError(f"{entry.id}: {error}") from None
                unknown[entry.label] = str(error)
                continue
        found[entry.id] = indices[entry.label]
    if required and not found and all(entry.areas is None for entry in dataset.entries):
        raise InputError(f"{dataset.where}: no image has a label, but the class of the label is to be explained")
    first = next(iter(unknown.values()), "")
    return found, [f"{len(unknown)} labels of the dataset are unused: {first}"] if unknown else []


def patch_side(explainer: Explainer) -> int:
    """Side, in pixels, of the squares that metrics remove: a token, or several where tokens are very small."""
    height = explainer.architecture.input_dims.height
    side = max(1, height // explainer.architecture.grid.rows)
    while height // side > MOST_PATCHES:
        side *= 2
    return side


def seed_of(identity: str) -> int:
    """The seed of everything random about an image; it depends on the id of the image only."""
    return int.from_bytes(hashlib.sha256(os.fsencode(identity)).digest()[:4], "big")


def prepare_group(
    entries: Sequence[Entry], explainer: Explainer, forward: Forward, labels: Mapping[str, int], target: str
) -> list[PreparedEntry]:
    """Read, preprocess and classify a group of images; one that cannot be read does not stop the others."""
    inputs = [attempt(lambda one: prepare(one.read(), explainer.preprocess), entry) for entry in entries]
    arrays = [item[0] for item in inputs if not isinstance(item, GradskipError)]
    logits = iter(forward.logits(np.stack(arrays)) if arrays else ())
    found = []
    for entry, item in zip(entries, inputs, strict=True):
        if isinstance(item, GradskipError):
            found.append(PreparedEntry(entry, error=str(item)))
            continue
        try:
            found.append(_cases(entry, explainer, forward, *item, next(logits), labels.get(entry.id), target))
        except InputError as error:
            found.append(PreparedEntry(entry, error=str(error)))
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
) -> PreparedEntry:
    size = (image.shape[1], image.shape[2])
    areas = areas_of(entry, label, geometry, size)
    targets = _targets(task_of(explainer.architecture), logits, label, target, areas)
    if isinstance(targets, str):
        return PreparedEntry(entry, excluded=targets)
    samples = [
        Sample(
            id=entry.id,
            image=image,
            target=index,
            label=label,
            boxes=boxes_of(entry, label, index, geometry, size),
            mask=mask_of(areas, index),
            mean=explainer.preprocess.mean,
            std=explainer.preprocess.std,
            patch=patch_side(explainer),
            seed=seed_of(entry.id),
        )
        for index in targets
    ]
    return PreparedEntry(entry, tuple(Case(sample, forward.score(logits, sample.target)) for sample in samples))


def _targets(task: Task, logits: Array, label: int | None, target: str, areas: Array | None) -> list[int] | str:
    """The classes to explain, or the reason why there are none."""
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
