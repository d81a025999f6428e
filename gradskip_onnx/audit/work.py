"""Computes and writes parts: what each process of an audit does."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

from gradskip_onnx.api import Explainer
from gradskip_onnx.datasets import Dataset, DatasetSource, Entry, load_source
from gradskip_onnx.errors import GradskipError, InputError
from gradskip_onnx.evaluation.cases import resolve_labels
from gradskip_onnx.pipeline.batch import Outcome, run_jobs

from .explain import Covers, make_rows
from .own_model import OwnModel
from .parts import write_part
from .place import Place, open_place
from .private import as_unicode, recorded, without_names
from .row import Row
from .settings import AuditSettings, Step
from .subject import Subject, file_hash, read_subject

AHEAD = 2  # batches that threads read while the model runs
Position = tuple[int, int]  # number of the part, place in the data


@dataclass(frozen=True, eq=False)
class PartWork:
    """Everything a process needs to make parts; it can be pickled where its data has a source."""

    explainer: Explainer
    data: Dataset | DatasetSource
    where: str | Place
    settings: AuditSettings
    part_size: int

    def for_other_processes(self, processes: int) -> PartWork:
        """The same work for one of several processes, which share the cores."""
        source = self.data.source if isinstance(self.data, Dataset) else self.data
        if source is None:
            raise InputError("data that was put together by hand cannot be sent to workers; give its address")
        threads = max(1, (os.cpu_count() or 1) // processes)
        model = self.explainer.model
        explainer = self.explainer if model.threads else replace(self.explainer, model=model.with_threads(threads))
        where = self.where if isinstance(self.where, str) else self.where.name
        return replace(self, explainer=explainer, data=source, where=where)

    @cached_property
    def dataset(self) -> Dataset:
        return self.data if isinstance(self.data, Dataset) else load_source(self.data)

    @cached_property
    def labels(self) -> dict[str, int]:
        """Class index by id of the entry."""
        return resolve_labels(self.dataset, self.explainer, required=self.settings.target == "label")[0]

    @cached_property
    def own(self) -> OwnModel:
        return OwnModel.open(self.explainer)

    @cached_property
    def place(self) -> Place:
        return open_place(self.where)

    def positions(self, part: int) -> range:
        """The places in the data of the images of a part."""
        start = part * self.part_size
        return range(start, min(start + self.part_size, len(self.dataset.entries)))

    def names(self, part: int) -> list[str]:
        """The ids of the images of a part."""
        return [self.dataset.entries[at].id for at in self.positions(part)]

    def make(self, parts: Iterable[int], step: Step) -> None:
        """Compute and write parts, in order; an image is in the same batch whenever and wherever its part is made."""
        own, labels, covers = self.own, self.labels, Covers(self.settings)  # what fails here ends the run

        def prepare(job: Position) -> Subject:
            return read_subject(job[1], self._entry(job), self.explainer, labels, self.settings)

        def work(subjects: Sequence[Subject]) -> list[Row]:
            return make_rows(self.explainer, own, subjects, self.settings, covers)

        size = self.settings.batch_size
        for some in [parts] if self.part_size % size == 0 else ([part] for part in parts):  # no batch is in two parts
            jobs = ((part, position) for part in some for position in self.positions(part))
            outcomes = run_jobs(jobs, prepare, work, batch_size=size, ahead=AHEAD, caught=GradskipError)
            for part, group in groupby(outcomes, key=lambda outcome: outcome.job[0]):
                rows = []
                for outcome in group:
                    rows.append(self._row(outcome))
                    step(self._entry(outcome.job).id)
                self.explainer.model.require_unchanged()  # or every row of the part may be about another model
                write_part(self.place, part, rows)

    def batch_of(self, position: int) -> range:
        """The places of the images that are in one batch with an image: what dynamically quantised files hang on."""
        own, size = self.positions(position // self.part_size), self.settings.batch_size
        start = own.start + (position - own.start) // size * size
        return range(start, min(start + size, own.stop))

    def _entry(self, job: Position) -> Entry:
        return self.dataset.entries[job[1]]

    def _row(self, outcome: Outcome[Position, Row]) -> Row:
        """The row of an image, or what is left of it where it failed."""
        if not isinstance(outcome.found, GradskipError):
            return outcome.found
        entry, text = self._entry(outcome.job), " ".join(str(outcome.found).split())
        if self.settings.privacy:
            text = without_names(text, entry.id, self.dataset.where)
        name = recorded(entry.id, privacy=self.settings.privacy)
        return Row(position=outcome.job[1], image=name, image_sha256=file_hash(entry), error=as_unicode(text))

    def __getstate__(self) -> dict[str, Any]:
        """What was opened here is opened anew elsewhere."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}
