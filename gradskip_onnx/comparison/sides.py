"""The two sides of a comparison: audits, or models that are audited first, the second for the classes of the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gradskip_onnx.api import Explainer
from gradskip_onnx.audit.place import Place
from gradskip_onnx.audit.private import recorded
from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.audit.run import run_audit
from gradskip_onnx.audit.settings import AuditSettings, Step
from gradskip_onnx.datasets import Dataset, Entry
from gradskip_onnx.errors import InputError
from gradskip_onnx.findings.observed import NO_CLASS, observe
from gradskip_onnx.types import Array


@dataclass(frozen=True, slots=True, eq=False)
class ToAudit:
    """A model to be audited on some data into a folder; an unfinished audit there goes on."""

    explainer: Explainer
    dataset: Dataset
    folder: Place
    settings: AuditSettings


Side = Audit | ToAudit
Progress = Callable[[int], Step]


def facts_of(side: Side) -> dict[str, Any]:
    """What is known of a side before it is audited: its task, its classes and their names."""
    if isinstance(side, Audit):
        return {name: side.facts[name] for name in ("task", "classes", "labels")}
    architecture = side.explainer.architecture
    return {"task": architecture.task, "classes": architecture.classes, "labels": side.explainer.labels}


def audited(side: Side, progress: Progress | None = None) -> Audit:
    """The audit of a side, run to its end if it is a model."""
    if isinstance(side, Audit):
        if not side.whole:
            raise InputError(f"{side.place.name}: this audit is not finished; run its command again")
        return side
    return run_audit(side.explainer, side.dataset, side.folder, side.settings, progress)


def for_the_classes_of(audit: Audit, side: Side) -> Side:
    """The side with each image explained for the class that the audit explained; an audit stays as it is.

    What is known of other classes is left out: boxes and masks of the true class say nothing about another.
    """
    if isinstance(side, Audit):
        return side
    observed = observe(audit, resamples=0, seed=0)
    known = zip(
        audit.table["image"].to_pylist(),
        observed.classes("target").tolist(),
        audit.table["height"].to_pylist(),
        audit.table["width"].to_pylist(),
        strict=True,
    )
    targets = {name: (target, (height, width)) for name, target, height, width in known if target != NO_CLASS}
    by_pixel, privacy = audit.facts["task"] == "segmentation", bool(audit.facts["privacy"])
    entries = tuple(
        _explained_as(entry, targets.get(recorded(entry.id, privacy=privacy)), by_pixel)
        for entry in side.dataset.entries
    )
    dataset = replace(side.dataset, entries=entries, source=None)
    return replace(side, dataset=dataset, settings=replace(side.settings, target="label", workers=1, privacy=privacy))


def _explained_as(entry: Entry, target: tuple[int, tuple[int, int]] | None, by_pixel: bool) -> Entry:
    if target is None:  # it failed in the first audit; without a label it fails in the second one too
        return replace(entry, label=None, boxes=None, outline=None, areas=None)
    areas = partial(_everywhere, *target) if by_pixel else None
    return replace(entry, label=target[0], boxes=None, outline=None, areas=areas)


def _everywhere(index: int, size: tuple[int, int]) -> Array:
    """A segmentation in which every pixel is of one class."""
    return np.full(size, index)
