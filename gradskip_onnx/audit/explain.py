"""Makes the rows of images: explained, measured and checked, a batch at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradskip_onnx.api import Explainer
from gradskip_onnx.images.classes import rank
from gradskip_onnx.images.preprocess import Geometry
from gradskip_onnx.pipeline.assemble import TOP
from gradskip_onnx.pipeline.question import Question
from gradskip_onnx.pipeline.relevances import relevances
from gradskip_onnx.tasks import task_of
from gradskip_onnx.types import Array, Size

from . import counterfactual
from .doubt import doubt_of
from .measure import cover_of, map_numbers, peak_in, share_in
from .own_model import OwnModel
from .private import recorded
from .row import RegionShare, Row, Standing, map_facts
from .settings import AuditSettings
from .subject import Subject


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """The map of an image, with the pass it was made from."""

    target: int
    logits: Array
    scores: Array  # (rows, columns) float32
    notes: tuple[str, ...]


def make_rows(
    explainer: Explainer, own: OwnModel, subjects: Sequence[Subject], settings: AuditSettings, covers: Covers
) -> list[Row]:
    """The row of each image of a batch."""
    began = time.perf_counter()
    task = task_of(explainer.architecture)
    explained = _explain(explainer, subjects, settings)
    questions = [
        counterfactual.Question(subject.sample(explainer, found.target, settings.seed), found.scores, found.logits)
        for subject, found in zip(subjects, explained, strict=True)
    ]
    answers = counterfactual.ask(own.logits, task, questions, settings.check, settings.batch_size)
    numbers = [
        _answered(explainer, subject, found) | _measured(subject, found, covers) | _checked(found, answer)
        for subject, found, answer in zip(subjects, explained, answers, strict=True)
    ]
    seconds = (time.perf_counter() - began) / len(subjects)
    return [
        Row(**row_facts(subject, settings), **found, seconds=subject.seconds + seconds)
        for subject, found in zip(subjects, numbers, strict=True)
    ]


def row_facts(subject: Subject, settings: AuditSettings) -> dict[str, Any]:
    """The columns that say which image a row is about."""
    height, width = subject.prepared.geometry.image_size
    return {
        "position": subject.position,
        "image": recorded(subject.entry.id, privacy=settings.privacy),
        "image_sha256": subject.sha256,
        "truth_sha256": subject.truth_sha256,
        "width": width,
        "height": height,
    }


class Covers:
    """Which part of each entry of a map the named regions cover; the same for all pictures of one size."""

    def __init__(self, settings: AuditSettings) -> None:
        self._regions = settings.regions
        self._found: tuple[object, tuple[tuple[str, Array], ...]] = (None, ())

    def of(self, geometry: Geometry, inputs: Size, grid: Size) -> tuple[tuple[str, Array], ...]:
        """The name and the cover (rows, columns) of each region; the last answer is kept."""
        key = (geometry, inputs, grid)
        if self._found[0] != key:
            covers = ((region.name, cover_of(region.pixels(geometry, inputs), grid)) for region in self._regions)
            self._found = (key, tuple(covers))
        return self._found[1]


def _explain(explainer: Explainer, subjects: Sequence[Subject], settings: AuditSettings) -> list[Explained]:
    question = Question(settings.method, settings.score)
    done = relevances(explainer, [each.prepared for each in subjects], [each.target for each in subjects], question)
    return [
        Explained(
            one.trace.target,
            np.array(one.trace.logits),  # a copy: the trace holds far more
            np.ascontiguousarray(one.relevance.scores, np.float32),
            one.relevance.notes,
        )
        for one in done
    ]


def _answered(explainer: Explainer, subject: Subject, found: Explained) -> dict[str, Any]:
    """The columns from `label` to `top`: what the model says."""
    architecture = explainer.architecture
    ranked = rank(task_of(architecture), found.logits, explainer.labels, TOP, found.target)
    target = next(entry for entry in ranked if entry.index == found.target)
    judged = subject.label is not None and architecture.task == "classification"
    return {
        "label": subject.label,
        "correct": ranked[0].index == subject.label if judged else None,
        "predicted": ranked[0].index,
        "predicted_probability": ranked[0].probability,
        "target": target.index,
        "logit": target.logit,
        "probability": target.probability,
        "top": tuple(Standing(entry.index, entry.logit, entry.probability) for entry in ranked[:TOP]),
        "notes": found.notes,
    }


def _measured(subject: Subject, found: Explained, covers: Covers) -> dict[str, Any]:
    """The columns from `map` to `regions`: where the map lies."""
    scores, truth = found.scores, subject.truth(found.target)
    inputs, grid = subject.prepared.values.shape[-2:], scores.shape
    numbers: dict[str, Any] = map_facts(scores) | map_numbers(scores)
    if truth is not None:
        cover = cover_of(truth, (grid[0], grid[1]))
        numbers |= {
            "inside": share_in(scores, cover),
            "inside_area": float(truth.mean()),
            "pointed": peak_in(scores, truth),
        }
    regions = covers.of(subject.prepared.geometry, (inputs[0], inputs[1]), (grid[0], grid[1]))
    shares = (RegionShare(name, share_in(scores, cover), float(cover.mean())) for name, cover in regions)
    return numbers | {"regions": tuple(shares)}


def _checked(found: Explained, answer: counterfactual.Answer) -> dict[str, Any]:
    """The columns of the counterfactual check and of the proof, and whether the map should be believed."""
    return {
        "logits_difference": answer.difference,
        "check_patches": answer.patches,
        "check_erased": answer.erased,
        "check_random": answer.random,
        "check_passed": answer.passed,
        "abstained": doubt_of(found.scores, answer),
    }
