"""Reads the ledger of an evaluation back: the results of each method and measurement, image by image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradskip_onnx.metrics import Measured
from gradskip_onnx.pipeline.ledger import Ledger
from gradskip_onnx.types import Array

from .records import Answer, answer_of, measured_of

Place = tuple[str, int | None]  # image and class


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The mean curve of a measurement over `count` cases."""

    x: Array
    y: Array
    count: int


@dataclass(slots=True, eq=False)
class Gathered:
    """The results of one method and measurement; curves are kept as running sums only."""

    results: dict[Place, Measured] = field(default_factory=dict)
    checks: dict[Place, Mapping[str, float]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    answers: dict[Place, Answer] = field(default_factory=dict)
    sums: dict[str, tuple[Array, Array, int]] = field(default_factory=dict)  # kind -> x, sum of y, count

    def add(self, record: Mapping[str, Any]) -> None:
        """Add one line of the ledger."""
        image = record["image"]
        if record.get("error"):
            self.failed[image] = record["error"]
            return
        if not record["cases"]:
            self.results[image, None] = Measured(excluded=record["excluded"] or "no class to explain")
        for case in record["cases"]:
            self.results[image, case["target"]] = measured_of(case)
            self.checks[image, case["target"]] = case["checks"]
            if answer := answer_of(case):
                self.answers[image, case["target"]] = answer
            for kind, (x, y) in case["curves"].items():
                _, total, count = self.sums.get(kind, (None, np.zeros(len(y)), 0))
                self.sums[kind] = (np.array(x), total + y, count + 1)

    @property
    def curves(self) -> dict[str, Curve]:
        return {kind: Curve(x, total / count, count) for kind, (x, total, count) in self.sums.items()}


Everything = dict[tuple[str, str], Gathered]  # by method and measurement


def gather(ledger: Ledger, keys: set[str]) -> Everything:
    """The results with these keys; of two lines with the same key the later one counts."""
    last = {record["key"]: number for number, record in enumerate(ledger.records()) if record["key"] in keys}
    found: Everything = {}
    for number, record in enumerate(ledger.records()):
        if last.get(record["key"]) == number:
            found.setdefault((record["method"], record["measure"]), Gathered()).add(record)
    return found


def places(many: Iterable[Gathered], images: Iterable[str]) -> list[Place]:
    """The images and classes for which any of `many` has a result, in the order of the dataset."""
    order = {image: at for at, image in enumerate(images)}
    found = {place for gathered in many for place in gathered.results}
    return sorted(found, key=lambda place: (order[place[0]], -1 if place[1] is None else place[1]))
