"""The loop of an evaluation: every method on each group of images, measuring what the ledger lacks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gradskip_onnx.datasets import Entry
from gradskip_onnx.errors import GradskipError, InputError
from gradskip_onnx.explanation import Explanation
from gradskip_onnx.methods import MethodChoice
from gradskip_onnx.metrics import ImageMetric, Measured, Saliency, measure
from gradskip_onnx.output.atomic import remove_leftovers
from gradskip_onnx.pipeline.batch import in_batches
from gradskip_onnx.pipeline.ledger import Ledger, append_line, key_of

from .cases import Case, PreparedEntry, prepare_group
from .choices import Measurement
from .evaluation import Evaluation, spread
from .explain import explain_group
from .forward import Forward
from .metric_kinds import GroupMetric
from .pictures import FOLDER as PICTURES
from .pictures import Pictures, map_thumbnail, thumbnail
from .records import NAME, Answer, case_document

OPEN_BYTES = 2 << 30  # weights in open sessions; if the sessions of all methods need more, methods take turns
MOST_OPEN = 6  # methods with open sessions, because activations may take more memory than a small model
TIMES = "timings.jsonl"
Step = Callable[[str], None]


@dataclass(slots=True, eq=False)
class Run:
    """One run into a folder; `keys` are those of all its results, also of results measured by earlier runs."""

    evaluation: Evaluation
    folder: Path
    ledger: Ledger
    pictures: Pictures
    shown: set[str]  # ids of the images in the picture grid
    keys: set[str] = field(default_factory=set)
    digests: dict[str, str] = field(default_factory=dict)  # of images, by id

    @classmethod
    def open(cls, evaluation: Evaluation, folder: Path) -> Run:
        shown = {entry.id for entry in evaluation.shown}
        remove_leftovers(folder / PICTURES)
        return cls(evaluation, folder, Ledger.open(folder / NAME), Pictures(folder), shown)

    def go(self, step: Step) -> None:
        """Measure everything that is missing; if nothing is, the model is not read."""
        evaluation = self.evaluation
        unfinished = [method for method in evaluation.methods if self._is_unfinished(method)]
        for method in evaluation.methods:
            if method not in unfinished:
                for entry in evaluation.dataset.entries:
                    step(f"{entry.id} {method.label}")
        for methods in self._turns(unfinished):
            for group in in_batches(evaluation.dataset.entries, evaluation.batch):
                self._run_group(group, methods, step)
            evaluation.explainer.close()
        for measurement in evaluation.group_measurements:
            for method in evaluation.methods:
                self._measure_together(method, measurement)
                step(method.label)

    def _is_unfinished(self, method: MethodChoice) -> bool:
        """Whether a result or a picture of any image is missing."""
        entries = self.evaluation.dataset.entries
        return any(self._missing_results(entry, method) or self._missing_pictures(entry, method) for entry in entries)

    def _turns(self, methods: Sequence[MethodChoice]) -> Iterator[tuple[MethodChoice, ...]]:
        """Yield groups of methods whose sessions fit into memory together."""
        if methods:
            size = max(1, self.evaluation.explainer.model.weight_bytes)
            yield from in_batches(methods, min(MOST_OPEN, max(1, OPEN_BYTES // size)))

    def _run_group(self, group: Sequence[Entry], methods: Sequence[MethodChoice], step: Step) -> None:
        """Run the methods on a group of images; if anything is missing, the whole group runs, as in a first run."""
        prepared: list[PreparedEntry] = []
        for method in methods:
            todo = {entry.id: self._missing_results(entry, method) for entry in group}
            drawings = {entry.id: self._missing_pictures(entry, method) for entry in group}
            if any(todo.values()) or any(drawings.values()):
                prepared = prepared or self._prepare(group)
                self._run_method(prepared, method, todo, drawings, step)
            else:
                for entry in group:
                    step(f"{entry.id} {method.label}")

    def _prepare(self, entries: Sequence[Entry]) -> list[PreparedEntry]:
        evaluation = self.evaluation
        forward = Forward(evaluation.explainer)
        return prepare_group(entries, evaluation.explainer, forward, evaluation.labels, evaluation.target)

    def _facts(self, entry: Entry, method: MethodChoice | None) -> dict[str, Any]:
        """Everything that a result depends on; each image is hashed once per run."""
        if entry.id not in self.digests:
            self.digests[entry.id] = entry.digest()
        return self.evaluation.facts(entry, self.digests[entry.id], method)

    def _key(self, entry: Entry, method: MethodChoice, measurement: Measurement[Any]) -> str:
        facts = self._facts(entry, method) | {"measure": measurement.name, "settings": measurement.settings}
        return key_of(facts | ({"metric package": measurement.package} if measurement.package else {}))

    def _must_measure(self, key: str) -> bool:
        """Whether the result of a key is missing; the key becomes one of the run in any case."""
        self.keys.add(key)
        return self.ledger.lacks(key, retry=self.evaluation.retry)

    def _missing_results(self, entry: Entry, method: MethodChoice) -> dict[str, Measurement[ImageMetric]]:
        """The measurements still to be made on an image, by key."""
        measurements = {self._key(entry, method, one): one for one in self.evaluation.image_measurements}
        return {key: one for key, one in measurements.items() if self._must_measure(key)}

    def _missing_pictures(self, entry: Entry, method: MethodChoice) -> list[Path]:
        """Paths of the thumbnail and of the map over it, if the page shows the image and one of them is missing."""
        if entry.id not in self.shown:
            return []
        paths = [self.pictures.path(self._facts(entry, which)) for which in (None, method)]
        return paths if not all(path.exists() for path in paths) else []

    def _run_method(
        self,
        prepared: Sequence[PreparedEntry],
        method: MethodChoice,
        todo: Mapping[str, Mapping[str, Measurement[ImageMetric]]],
        drawings: Mapping[str, Sequence[Path]],
        step: Step,
    ) -> None:
        """Explain the images by one method; write the missing results and pictures."""
        cases = [case for item in prepared for case in item.cases]
        images = np.stack([case.sample.image for case in cases]) if cases else np.empty(0)
        targets = [case.sample.target for case in cases]
        found = explain_group(self.evaluation.explainer, method, images, targets, self.evaluation.score)
        self._record_time(method, found)
        explanations = iter(found)
        for item in prepared:
            explained = [(case, next(explanations)) for case in item.cases]
            for key, measurement in todo[item.entry.id].items():
                self._record(item, method, key, measurement.label, partial(self._measure, explained, measurement))
            self._draw(explained, drawings[item.entry.id])
            step(f"{item.entry.id} {method.label}")

    def _measure(
        self, explained: Sequence[tuple[Case, Explanation | GradskipError]], measurement: Measurement[ImageMetric]
    ) -> list[dict[str, Any]]:
        """The records of the cases of an image; raises the error of a case that could not be explained."""
        documents = []
        for case, found in explained:
            if isinstance(found, GradskipError):
                raise found
            saliency = Saliency(found.map, found.relevance.scores)
            with measurement.blame():
                (measured,) = measure([measurement.choice], case.sample, saliency, case.score)
                value = measurement.choice.row.value(measured)  # raises KeyError if a term is missing
            if value is not None and not np.isfinite(value):
                raise InputError(f"metric {measurement.choice.row.name} is {value} for this map")
            answer = Answer(found.target.probability, found.top[0].index)
            documents.append(case_document(case.sample.target, measured, found.relevance.checks, answer))
        return documents

    def _record(
        self, item: PreparedEntry, method: MethodChoice, key: str, name: str, work: Callable[[], list[dict[str, Any]]]
    ) -> None:
        """Append the result of `work`, or the error it raises, to the ledger; a line that cannot be written raises."""
        record: dict[str, Any] = {"key": key, "image": item.entry.id, "method": method.label, "measure": name}
        try:
            record |= {"error": item.error} if item.error else {"cases": work(), "excluded": item.excluded}
        except GradskipError as error:
            record |= {"error": str(error)}
        self.ledger.append(record)

    def _draw(self, explained: Sequence[tuple[Case, Explanation | GradskipError]], paths: Sequence[Path]) -> None:
        """Save the thumbnail and the map of the first case of an image."""
        if not paths or not explained:
            return
        (case, found), preprocess = explained[0], self.evaluation.explainer.preprocess
        self.pictures.save(paths[0], thumbnail(case.sample.image, preprocess))
        if not isinstance(found, GradskipError):
            self.pictures.save(paths[1], map_thumbnail(case.sample.image, found, preprocess))

    def _measure_together(self, method: MethodChoice, measurement: Measurement[GroupMetric]) -> None:
        """Measure a group of images together, unless all their results are in the ledger."""
        evaluation, metric = self.evaluation, measurement.choice
        entries = spread(evaluation.dataset.entries, metric.options.images)
        keys = {entry.id: self._key(entry, method, measurement) for entry in entries}
        missing = {identity for identity, key in keys.items() if self._must_measure(key)}
        if not missing:
            return
        prepared = self._prepare(entries)
        usable = [item for item in prepared if item.cases]  # of several classes of an image, the first is enough
        images = np.stack([item.cases[0].sample.image for item in usable]) if usable else np.empty(0)
        targets = [item.cases[0].sample.target for item in usable]
        failure = ""
        measured: list[Measured] = []
        try:
            measured = metric.row.measure(
                evaluation.explainer, method, images, targets, evaluation.score, metric.options
            )
        except GradskipError as error:
            failure = str(error)
        results = dict(zip((item.entry.id for item in usable), measured, strict=False))
        for item in prepared:
            if item.entry.id in missing:
                work = partial(_group_records, item, results, failure)
                self._record(item, method, keys[item.entry.id], measurement.label, work)

    def _record_time(self, method: MethodChoice, found: Sequence[Explanation | GradskipError]) -> None:
        """Append the seconds the maps took to a file of their own, because results must not depend on the machine."""
        timings = [result.timings for result in found if not isinstance(result, GradskipError)]
        seconds = sum(timing["run"] + timing["propagate"] for timing in timings)
        line = {"model": self.evaluation.explainer.sha256, "method": method.label, "images": len(timings)}
        append_line(self.folder / TIMES, json.dumps(line | {"seconds": round(seconds, 4)}).encode() + b"\n")


def _group_records(item: PreparedEntry, results: Mapping[str, Measured], failure: str) -> list[dict[str, Any]]:
    """The record of one image of a group, as a list; raises InputError if the group failed."""
    if failure:
        raise InputError(failure)
    if item.entry.id not in results:
        return []
    return [case_document(item.cases[0].sample.target, results[item.entry.id], {})]
