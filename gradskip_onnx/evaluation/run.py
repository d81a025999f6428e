"""The loop of an evaluation: groups of images, every method on the same group, what is missing is measured."""

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

from .cases import Case, Prepared, prepare_group
from .choices import Measurement
from .evaluation import Evaluation, spread
from .explain import explain_group
from .forward import Forward
from .metric_kinds import GroupMetric
from .pictures import FOLDER as PICTURES
from .pictures import Pictures, covered, shrunk
from .records import NAME, case_document

OPEN_BYTES = 2 << 30  # of models in sessions at a time: more methods than fit take turns
MOST_OPEN = 6  # methods with sessions at a time: the activations of each take more room than a small model
TIMES = "timings.jsonl"
Step = Callable[[str], None]


@dataclass(slots=True, eq=False)
class Run:
    """One run into a folder; `wanted` are the keys of its results, whoever measured them."""

    evaluation: Evaluation
    folder: Path
    ledger: Ledger
    pictures: Pictures
    shown: set[str]  # ids of the images in the picture grid
    wanted: set[str] = field(default_factory=set)
    digests: dict[str, str] = field(default_factory=dict)  # of the images, by their ids

    @classmethod
    def open(cls, evaluation: Evaluation, folder: Path) -> Run:
        shown = {entry.id for entry in evaluation.shown}
        remove_leftovers(folder / PICTURES)
        return cls(evaluation, folder, Ledger.open(folder / NAME), Pictures(folder), shown)

    def go(self, step: Step) -> None:
        """Measure everything that is missing; where nothing is, the model is not even read."""
        evaluation = self.evaluation
        unfinished = [method for method in evaluation.methods if any(self._left(method))]
        for method in evaluation.methods:
            if method not in unfinished:
                for entry in evaluation.dataset.entries:
                    step(f"{entry.id} {method.label}")
        for methods in self._turns(unfinished):
            for group in in_batches(evaluation.dataset.entries, evaluation.batch):
                self._group(group, methods, step)
            evaluation.explainer.close()
        for measurement in evaluation.together:
            for method in evaluation.methods:
                self._together(method, measurement)
                step(method.label)

    def _left(self, method: MethodChoice) -> Iterator[bool]:
        """For each image, whether anything is left to do."""
        for entry in self.evaluation.dataset.entries:
            yield bool(self._missing(entry, method)) or bool(self._undrawn(entry, method))

    def _turns(self, methods: Sequence[MethodChoice]) -> Iterator[tuple[MethodChoice, ...]]:
        """Methods whose sessions fit into memory side by side."""
        if methods:
            size = max(1, self.evaluation.explainer.model.weight_bytes)
            yield from in_batches(methods, min(MOST_OPEN, max(1, OPEN_BYTES // size)))

    def _group(self, group: Sequence[Entry], methods: Sequence[MethodChoice], step: Step) -> None:
        """Every method on a few images; where anything is missing, the group runs as a whole, as it would have."""
        ready: list[Prepared] = []
        for method in methods:
            todo = {entry.id: self._missing(entry, method) for entry in group}
            drawings = {entry.id: self._undrawn(entry, method) for entry in group}
            if any(todo.values()) or any(drawings.values()):
                ready = ready or self._prepared(group)
                self._method(ready, method, todo, drawings, step)
            else:
                for entry in group:
                    step(f"{entry.id} {method.label}")

    def _prepared(self, entries: Sequence[Entry]) -> list[Prepared]:
        evaluation = self.evaluation
        forward = Forward(evaluation.explainer)
        return prepare_group(entries, evaluation.explainer, forward, evaluation.labels, evaluation.target)

    def _facts(self, entry: Entry, method: MethodChoice | None) -> dict[str, Any]:
        """What a result depends on; an image is hashed once in a run."""
        if entry.id not in self.digests:
            self.digests[entry.id] = entry.digest()
        return self.evaluation.facts(entry, self.digests[entry.id], method)

    def _key(self, entry: Entry, method: MethodChoice, measurement: Measurement[Any]) -> str:
        facts = self._facts(entry, method)
        return key_of(facts | {"measure": measurement.name, "settings": measurement.settings})

    def _open(self, key: str) -> bool:
        """Whether a result must be measured; it is wanted in any case."""
        self.wanted.add(key)
        return self.ledger.lacks(key, retry=self.evaluation.retry)

    def _missing(self, entry: Entry, method: MethodChoice) -> dict[str, Measurement[ImageMetric]]:
        keys = {self._key(entry, method, each): each for each in self.evaluation.alone}
        return {key: each for key, each in keys.items() if self._open(key)}

    def _undrawn(self, entry: Entry, method: MethodChoice) -> list[Path]:
        """Pictures of the page that are not there yet: the image itself, and the map over it."""
        if entry.id not in self.shown:
            return []
        paths = [self.pictures.path(self._facts(entry, which)) for which in (None, method)]
        return paths if not all(path.exists() for path in paths) else []

    def _method(
        self,
        ready: Sequence[Prepared],
        method: MethodChoice,
        todo: Mapping[str, Mapping[str, Measurement[ImageMetric]]],
        drawings: Mapping[str, Sequence[Path]],
        step: Step,
    ) -> None:
        cases = [case for each in ready for case in each.cases]
        images = np.stack([case.sample.image for case in cases]) if cases else np.empty(0)
        targets = [case.sample.target for case in cases]
        found = explain_group(self.evaluation.explainer, method, images, targets, self.evaluation.score)
        self._time(method, found)
        maps = iter(found)
        for each in ready:
            mine = [(case, next(maps)) for case in each.cases]
            for key, measurement in todo[each.entry.id].items():
                self._record(each, method, key, measurement.label, partial(self._measured, mine, measurement))
            self._draw(mine, drawings[each.entry.id])
            step(f"{each.entry.id} {method.label}")

    def _measured(
        self, mine: Sequence[tuple[Case, Explanation | GradskipError]], measurement: Measurement[ImageMetric]
    ) -> list[dict[str, Any]]:
        documents = []
        for case, found in mine:
            if isinstance(found, GradskipError):
                raise found
            saliency = Saliency(found.map, found.relevance.scores)
            (measured,) = measure([measurement.choice], case.sample, saliency, case.score)
            documents.append(case_document(case.sample.target, measured, found.relevance.checks))
        return documents

    def _record(
        self, each: Prepared, method: MethodChoice, key: str, name: str, measured: Callable[[], list[dict[str, Any]]]
    ) -> None:
        """One line; a failure is a result too, unless it is the line that cannot be written."""
        record: dict[str, Any] = {"key": key, "image": each.entry.id, "method": method.label, "measure": name}
        try:
            record |= {"error": each.error} if each.error else {"cases": measured(), "excluded": each.excluded}
        except GradskipError as error:
            record |= {"error": str(error)}
        self.ledger.append(record)

    def _draw(self, mine: Sequence[tuple[Case, Explanation | GradskipError]], paths: Sequence[Path]) -> None:
        if not paths or not mine:
            return
        (case, found), preprocess = mine[0], self.evaluation.explainer.preprocess
        self.pictures.save(paths[0], shrunk(case.sample.image, preprocess))
        if not isinstance(found, GradskipError):
            self.pictures.save(paths[1], covered(case.sample.image, found.map, preprocess))

    def _together(self, method: MethodChoice, measurement: Measurement[GroupMetric]) -> None:
        evaluation, metric = self.evaluation, measurement.choice
        entries = spread(evaluation.dataset.entries, metric.options.images)
        keys = {entry.id: self._key(entry, method, measurement) for entry in entries}
        missing = {identity for identity, key in keys.items() if self._open(key)}
        if not missing:
            return
        ready = self._prepared(entries)
        first = [each for each in ready if each.cases]  # of several classes of an image, one will do
        images = np.stack([each.cases[0].sample.image for each in first]) if first else np.empty(0)
        targets = [each.cases[0].sample.target for each in first]
        failure = ""
        many: list[Measured] = []
        try:
            many = metric.row.measure(evaluation.explainer, method, images, targets, evaluation.score, metric.options)
        except GradskipError as error:
            failure = str(error)
        results = dict(zip((each.entry.id for each in first), many, strict=False))
        for each in ready:
            if each.entry.id in missing:
                self._record(
                    each, method, keys[each.entry.id], measurement.label, partial(_shared, each, results, failure)
                )

    def _time(self, method: MethodChoice, found: Sequence[Explanation | GradskipError]) -> None:
        """How long the maps took, sessions open; not part of the results, which are the same on every machine."""
        made = [each.timings for each in found if not isinstance(each, GradskipError)]
        seconds = sum(timings["run"] + timings["propagate"] for timings in made)
        line = {"model": self.evaluation.explainer.sha256, "method": method.label, "images": len(made)}
        append_line(self.folder / TIMES, json.dumps(line | {"seconds": round(seconds, 4)}).encode() + b"\n")


def _shared(each: Prepared, results: Mapping[str, Measured], failure: str) -> list[dict[str, Any]]:
    if failure:
        raise InputError(failure)
    if each.entry.id not in results:
        return []
    return [case_document(each.cases[0].sample.target, results[each.entry.id], {})]
