"""Runs an audit into a folder: a row an image, in parts. A run that was stopped at any moment goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gradskip_onnx.api import Explainer
from gradskip_onnx.datasets import Dataset
from gradskip_onnx.errors import InputError, ModelError

from .facts import audit_facts, claim
from .parts import FOLDER, finished_parts, part_path, read_part
from .place import Place, open_place
from .ray_engine import run_on_ray
from .reading import Audit, read_audit
from .settings import AuditSettings, Step
from .work import PartWork
from .workers import run_in_processes

DEFAULTS = AuditSettings()


def run_audit(
    explainer: Explainer,
    dataset: Dataset,
    folder: str | os.PathLike[str] | Place,
    settings: AuditSettings = DEFAULTS,
    progress: Callable[[int], Step] | None = None,
) -> Audit:
    """Audit a model on every image of a dataset.

    `progress(n)` is called once with the number of images that are left to do, and returns what is called after each.
    A folder that holds another audit raises InputError. An image that fails has a row with the reason.
    """
    place = open_place(folder)
    explainer.settled(settings.method).check(explainer.architecture)
    facts = audit_facts(explainer, dataset, settings)
    place.make()
    place.make(FOLDER)
    with place.held():
        facts = claim(place, facts)
        work = PartWork(explainer, dataset, place, settings, int(facts["part_size"]))
        todo = missing_parts(place, facts, retry=settings.retry)
        step = progress(sum(len(work.positions(part)) for part in todo)) if progress else _silent
        if todo:
            ENGINES[settings.engine](work, todo, step)
    audit = read_audit(place)
    if not audit.whole:
        raise ModelError(
            f"output {place.name}: parts are missing that workers said they wrote; can all of them see it?"
        )
    return audit


def missing_parts(place: Place, facts: Mapping[str, object], *, retry: bool = False) -> list[int]:
    """The numbers of the parts still to be made; with `retry` those that hold a failed image are made again."""
    data, size = facts["data"], facts["part_size"]
    if not isinstance(data, dict) or not isinstance(size, int):
        raise InputError(f"{place.name}: not the facts of an audit of this version")
    finished = finished_parts(place)
    if retry:
        for part in [part for part in finished if _has_failures(place, part)]:
            place.remove(part_path(part))
            finished.remove(part)
    return sorted(set(range(-(-int(data["count"]) // size))) - set(finished))


def _has_failures(place: Place, part: int) -> bool:
    return bool(np.any(read_part(place, part, ["error"])["error"].is_valid().to_numpy()))


def _run_here(work: PartWork, parts: Sequence[int], step: Step) -> None:
    """Make parts in this process, or in several, as the settings say."""
    if work.settings.workers == 1:
        work.make(parts, step)
    else:
        run_in_processes(work, parts, step)


ENGINES: Mapping[str, Callable[[PartWork, Sequence[int], Step], None]] = {"local": _run_here, "ray": run_on_ray}


def _silent(_name: str) -> None:
    """Show no progress."""
