"""One image on its way through an audit: read, hashed, preprocessed, with its ground truth and the class to explain."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.api import Explainer
from gradskip_onnx.datasets import Entry
from gradskip_onnx.datasets.entry import UNLABELLED
from gradskip_onnx.errors import GradskipError, InputError
from gradskip_onnx.evaluation.cases import patch_side, seed_of
from gradskip_onnx.evaluation.truth import areas_of, boxes_of, mask_of
from gradskip_onnx.images.read import Picture
from gradskip_onnx.metrics import Sample
from gradskip_onnx.metrics.pointing import box_mask
from gradskip_onnx.pipeline.inputs import Prepared
from gradskip_onnx.types import Array

from .settings import AuditSettings


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A preprocessed image; `target` None means the predicted class."""

    position: int
    entry: Entry
    sha256: str
    truth_sha256: str | None  # of the image with its boxes and masks
    prepared: Prepared
    label: int | None
    areas: Array | None  # (H, W) class of each input pixel
    target: int | None
    seconds: float  # that reading it took

    def sample(self, explainer: Explainer, target: int, seed: int) -> Sample:
        """The image for the counterfactual check; what is random depends on the bytes of the image and the seed."""
        preprocess = explainer.preprocess
        return Sample(
            id=self.entry.id,
            image=self.prepared.values,
            target=target,
            mean=preprocess.mean,
            std=preprocess.std,
            patch=patch_side(explainer),
            seed=seed_of(f"{seed}:{self.sha256}"),
        )

    def truth(self, target: int) -> Array | None:
        """(H, W) booleans: the input pixels of objects of the class explained; None where none are known."""
        size = self.prepared.values.shape[-2:]
        boxes = boxes_of(self.entry, self.label, target, self.prepared.geometry, (size[0], size[1]))
        if boxes is not None:
            found = box_mask(boxes, (size[0], size[1]))
        else:
            mask = mask_of(self.areas, target)
            found = np.zeros(size, bool) if mask is None else mask == 1
        return found if found.any() else None


def read_subject(
    position: int, entry: Entry, explainer: Explainer, labels: Mapping[str, int], settings: AuditSettings
) -> Subject:
    """Read and preprocess an entry; raises InputError if that fails, or if the class to explain is not known."""
    began = time.perf_counter()
    picture = picture_of(entry)
    prepared = explainer.prepare(picture)
    label = labels.get(entry.id)
    height, width = prepared.values.shape[-2:]
    areas = areas_of(entry, label, prepared.geometry, (height, width))
    target = None if settings.target == "predicted" else _true_class(entry, label, areas, explainer)
    sha256 = picture.sha256 or pixel_hash(picture)
    truth = truth_hash(entry)
    return Subject(position, entry, sha256, truth, prepared, label, areas, target, time.perf_counter() - began)


def picture_of(entry: Entry) -> Picture:
    """The image of an entry, with the hash of its file, or of its pixels where it has none."""
    if entry.picture is not None:
        return entry.picture()
    return Picture(entry.id, entry.read())


def file_hash(entry: Entry) -> str | None:
    """SHA-256 of the file of an entry; None if it has none, or if it cannot be read."""
    try:
        return None if entry.sha256 is None else entry.sha256()
    except (GradskipError, OSError):
        return None


def truth_hash(entry: Entry) -> str | None:
    """SHA-256 of what changes with the image, its boxes and its masks; None for an entry that has only a label."""
    if entry.boxes is None and entry.outline is None and entry.areas is None:
        return None
    return hashlib.sha256(entry.digest().encode()).hexdigest()


def pixel_hash(picture: Picture) -> str:
    """SHA-256 of an image without a file: its width, height and RGB bytes."""
    width, height = picture.image.size
    return hashlib.sha256(f"{width}x{height}:".encode() + picture.image.tobytes()).hexdigest()


def _true_class(entry: Entry, label: int | None, areas: Array | None, explainer: Explainer) -> int:
    """The label of the image; in segmentation the known class that covers most of it."""
    if explainer.architecture.task == "classification":
        if label is None:
            raise InputError(f"{entry.id}: it has no label, and the class of the label is to be explained")
        return label
    known = (
        np.zeros(0, int) if areas is None else areas[(areas > UNLABELLED) & (areas < explainer.architecture.classes)]
    )
    if not known.size:
        raise InputError(f"{entry.id}: no known class is in its mask, and one of these is to be explained")
    return int(np.bincount(known).argmax())
