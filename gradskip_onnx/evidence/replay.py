"""Runs a sample of an audit again, on this machine, and compares answers and maps with those recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradskip_onnx.api import Explainer, load
from gradskip_onnx.audit.explain import Covers, make_rows
from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.audit.row import Row
from gradskip_onnx.audit.settings import AuditSettings, CheckSettings
from gradskip_onnx.audit.subject import Subject, read_subject
from gradskip_onnx.audit.work import PartWork
from gradskip_onnx.datasets import Dataset
from gradskip_onnx.errors import GradskipError, InputError
from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.methods import choose_method
from gradskip_onnx.model_file.opening import ModelFile, open_model_file
from gradskip_onnx.types import Array

from .check import Check

LOGIT = 1e-3  # of the logit, or of 1 if that is larger: other kernels sum float32 in another order
MAP = 0.01  # of the strongest score: a ranking inside a method can turn such a difference into a larger one
EQUAL = ("image", "image_sha256", "truth_sha256", "label", "predicted", "target")
COLUMNS = ("position", "logit", "check_erased", "check_random", "check_passed", *EQUAL)


@dataclass(frozen=True, slots=True)
class Tolerances:
    """How far a replay may be from the record."""

    logit: float = LOGIT  # as a share of the logit, or of 1 if that is larger
    map: float = MAP  # as a share of the strongest score


@dataclass(frozen=True, slots=True)
class Replayed:
    """One image run again: how far it is from the record, and what is too far; `wrong` is empty where all is well."""

    position: int
    image: str
    logit: float | None  # difference as a share of the logit, or of 1 if that is larger
    map: float | None  # largest difference as a share of the strongest score
    wrong: tuple[str, ...]

    @property
    def check(self) -> Check:
        if self.wrong:
            return Check(f"image {self.image}", "failed", "; ".join(self.wrong))
        return Check(f"image {self.image}", "ok", f"logit {self.logit or 0:.1e}, map {self.map or 0:.1e} away")


def open_model(model: str | ModelFile, facts: Mapping[str, Any], **settings: Any) -> Explainer:
    """The model as the audit used it: its preprocessing, size and class names; raises InputError for another model."""
    file = model if isinstance(model, ModelFile) else open_model_file(model)
    _require(facts["model"]["files"].get(facts["model"]["file"]), file.name, file.sha256())  # before anything is read
    explainer = load(
        file, preprocess=Preprocess.from_dict(facts["preprocess"]), labels=facts["labels"] or None,
        size=tuple(facts["image_size"]), task=facts["task"], fitted=False, **settings,
    )  # fmt: skip
    _require(facts["model"]["sha256"], explainer.name, explainer.sha256)
    return explainer


def _require(recorded: object, name: str, digest: str) -> None:
    if digest != recorded:
        raise InputError(f"{name} is not the model of this audit: its SHA-256 is {digest}, recorded {recorded}")


def sample_of(audit: Audit, count: int, seed: int) -> list[int]:
    """Positions drawn at random among the images that have a map, rising."""
    known = np.array(audit.explained)
    if not len(known):
        raise InputError(f"{audit.place.name}: none of its images was explained, so none can be run again")
    return sorted(np.random.default_rng(seed).choice(known, min(count, len(known)), replace=False).tolist())


def replay(
    audit: Audit,
    explainer: Explainer,
    dataset: Dataset,
    positions: Sequence[int],
    tolerances: Tolerances = Tolerances(),
) -> Iterator[Replayed]:
    """Run images again, and compare each with its row: first alone, and if that is too far, in the batch of then.

    Of a dynamically quantised file the answer to an image hangs on the others in its batch, which share its scales.
    """
    again = _Again(PartWork(explainer, dataset, audit.place, settings_of(audit.facts), audit.part_size))
    rows = audit.rows(positions, COLUMNS)
    for position, row, scores in zip(positions, rows, audit.maps(positions), strict=True):
        try:
            found = compare(row, scores, again.alone(position), tolerances)
            if found.wrong and (made := again.in_its_batch(position)) is not None:
                together = compare(row, scores, made, tolerances)
                found = found if together.wrong else together
        except GradskipError as error:
            yield Replayed(position, row["image"], None, None, (str(error),))
            continue
        yield found


class _Again:
    """Makes rows again, of an image alone or of its whole batch; the last batch is kept."""

    def __init__(self, work: PartWork) -> None:
        self._work, self._covers = work, Covers(work.settings)
        self._held: tuple[range, dict[int, Row]] = (range(0), {})

    def alone(self, position: int) -> Row:
        return self._rows([self._read(position)])[0]

    def in_its_batch(self, position: int) -> Row | None:
        """The row of an image among those that were run with it; None if these cannot be run together."""
        places = self._work.batch_of(position)
        if self._held[0] != places:
            subjects = [subject for subject in map(self._read_if_possible, places) if subject is not None]
            try:
                self._held = places, {row.position: row for row in self._rows(subjects)}
            except GradskipError:  # then they were run one by one in the audit too
                self._held = places, {}
        return self._held[1].get(position)

    def _rows(self, subjects: Sequence[Subject]) -> list[Row]:
        return make_rows(self._work.explainer, self._work.own, subjects, self._work.settings, self._covers)

    def _read(self, position: int) -> Subject:
        entries = self._work.dataset.entries
        if position >= len(entries):
            raise InputError("not in the data")
        return read_subject(position, entries[position], self._work.explainer, self._work.labels, self._work.settings)

    def _read_if_possible(self, position: int) -> Subject | None:
        try:
            return self._read(position)
        except GradskipError:
            return None


def settings_of(facts: Mapping[str, Any]) -> AuditSettings:
    """The settings of an audit; regions and how it was run do not matter for a single image."""
    return AuditSettings(
        method=choose_method(facts["method"], **facts["options"]),
        score=facts["score"],
        target=facts["target"],
        check=CheckSettings(**facts["check"]),
        seed=facts["seed"],
        batch_size=facts["batch_size"],
        privacy=facts["privacy"],
    )


def compare(row: Mapping[str, Any], scores: Array, made: Row, tolerances: Tolerances) -> Replayed:
    """A row made again beside the recorded one."""
    wrong = [f"{name} is {now}, recorded {row[name]}" for name in EQUAL if (now := getattr(made, name)) != row[name]]
    if made.check_passed != row["check_passed"] and abs(row["check_erased"] - row["check_random"]) > tolerances.logit:
        wrong.append(f"check_passed is {made.check_passed}, recorded {row['check_passed']}")  # and it was no near tie
    assert made.logit is not None
    assert made.map is not None
    logit = abs(made.logit - row["logit"]) / max(1.0, abs(row["logit"]))
    if not logit <= tolerances.logit:
        wrong.append(f"logit differs by {logit:.2g}, allowed {tolerances.logit:g}")
    if made.map.shape != scores.shape:
        return Replayed(row["position"], row["image"], logit, None, (*wrong, f"the map has shape {made.map.shape}"))
    strongest = max(float(np.abs(scores).max()), float(np.finfo(np.float32).tiny))
    apart = float(np.abs(made.map.astype(np.float64) - scores).max()) / strongest
    if not apart <= tolerances.map:
        wrong.append(f"map differs by {apart:.2g} of its strongest score, allowed {tolerances.map:g}")
    return Replayed(row["position"], row["image"], logit, apart, tuple(wrong))
