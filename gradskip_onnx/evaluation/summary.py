"""Summarises results: means with bootstrap intervals, differences from a reference method, failures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gradskip_onnx.errors import GradskipError
from gradskip_onnx.metrics import Choice, Measured, Metric
from gradskip_onnx.metrics.statistics import (
    LEVEL,
    RESAMPLES,
    Interval,
    exchange_test,
    holm,
    interval,
    paired,
    wilcoxon,
)
from gradskip_onnx.metrics.table import Better, first

from .choices import measurement_of
from .evaluation import Evaluation
from .gather import Curve, Everything, Gathered, places
from .run import TIMES

FEWEST = 3  # pairs needed for a test
ABSENT = Measured(excluded="no result")


@dataclass(frozen=True, slots=True)
class Cell:
    """A metric of a method over the dataset."""

    found: Interval | None  # None if every image is excluded or failed
    excluded: int
    failed: int
    gap: Interval | None = None  # difference from the reference method, on the same images
    p: float | None = None  # of the gap: Wilcoxon's, or by exchange for a metric without a value per image
    corrected: float | None = None  # p by Holm's correction, over all comparisons of the summary

    @property
    def level(self) -> bool:
        """Whether the method was compared with the reference and is not told apart from it."""
        return self.corrected is not None and self.corrected >= LEVEL


@dataclass(frozen=True, slots=True)
class Column:
    """A metric as a column of the table."""

    label: str
    summary: str
    better: Better


@dataclass(frozen=True, slots=True)
class Failure:
    """A method that could not be measured on an image."""

    image: str
    method: str
    measure: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """Everything in the report: cells by (method, metric), curves by (measurement, kind) and then method."""

    methods: tuple[str, ...]
    columns: tuple[Column, ...]
    reference: str
    images: int
    cells: Mapping[tuple[str, str], Cell]
    curves: Mapping[tuple[str, str], Mapping[str, Curve]]
    failures: tuple[Failure, ...]
    seconds: Mapping[str, float]  # per map, by method

    @property
    def comparisons(self) -> int:
        """The number of p-values: the family of Holm's correction."""
        return sum(cell.p is not None for cell in self.cells.values())

    def level(self, column: Column) -> tuple[str, ...]:
        """The methods that are not told apart from the reference in a metric."""
        return tuple(method for method in self.methods if self.cells[method, column.label].level)

    def best(self, column: Column) -> str | None:
        """The method with the best mean in a metric; None if no method has one."""
        means = {m: cell.found.value for m in self.methods if (cell := self.cells[m, column.label]).found is not None}
        if not means:
            return None
        return (max if column.better == "higher" else min)(means, key=means.__getitem__)


def summarise(
    evaluation: Evaluation, everything: Everything, folder: Path, reference: str, resamples: int = RESAMPLES
) -> Summary:
    """Summarise what was measured; raises GradskipError if every measurement failed."""
    methods = tuple(method.label for method in evaluation.methods)
    if everything and not any(gathered.results for gathered in everything.values()):
        reasons = {reason: image for gathered in everything.values() for image, reason in gathered.failed.items()}
        reason, image = next(iter(reasons.items()))
        raise GradskipError(f"nothing could be measured: {reason} (image {image})")
    cells: dict[tuple[str, str], Cell] = {}
    for choice in evaluation.columns:
        cells |= _column(evaluation, choice, everything, reference, resamples)
    columns = tuple(Column(metric.label, metric.row.summary, metric.row.better) for metric in evaluation.columns)
    return Summary(
        methods=methods,
        columns=columns,
        reference=reference,
        images=len(evaluation.dataset.entries),
        cells=_corrected(cells),
        curves=_curves(methods, everything),
        failures=_failures(everything),
        seconds=_seconds(folder, evaluation.explainer.sha256, methods),
    )


def aligned(evaluation: Evaluation, choice: Choice[Metric], everything: Everything) -> dict[str, list[Measured]]:
    """Results of one metric by method; entry i of every list is the same image and class."""
    label = measurement_of(choice, (*evaluation.image_measurements, *evaluation.group_measurements)).label
    found = {m.label: everything.get((m.label, label), Gathered()) for m in evaluation.methods}
    order = places(found.values(), (entry.id for entry in evaluation.dataset.entries))
    return {name: [gathered.results.get(place, ABSENT) for place in order] for name, gathered in found.items()}


def _column(
    evaluation: Evaluation, choice: Choice[Metric], everything: Everything, reference: str, resamples: int
) -> dict[tuple[str, str], Cell]:
    label = measurement_of(choice, (*evaluation.image_measurements, *evaluation.group_measurements)).label
    lists = aligned(evaluation, choice, everything)
    cells = {}
    for method, many in lists.items():
        gathered = everything.get((method, label), Gathered())
        gap = None if method == reference else paired(choice.row, many, lists[reference], resamples=resamples)
        cells[method, choice.label] = Cell(
            found=interval(choice.row, many, resamples=resamples),
            excluded=sum(bool(result.excluded) for result in gathered.results.values()),
            failed=len(gathered.failed),
            gap=gap,
            p=None if gap is None else _p(choice, many, lists[reference]),
        )
    return cells


def _p(choice: Choice[Metric], ours: Sequence[Measured], theirs: Sequence[Measured]) -> float | None:
    """Wilcoxon's p over the images, by exchange for a metric without a value per image; None for too few images."""
    pairs = [(choice.row.value(a), choice.row.value(b)) for a, b in zip(ours, theirs, strict=True)]
    kept = [(a, b) for a, b in pairs if a is not None and b is not None]
    if len(kept) < FEWEST:
        return None
    return (
        wilcoxon(*zip(*kept, strict=True)).p if choice.row.finish is first else exchange_test(choice.row, ours, theirs)
    )


def _corrected(cells: Mapping[tuple[str, str], Cell]) -> dict[tuple[str, str], Cell]:
    """The cells with corrected p; the family is every method but the reference in every metric."""
    tested = {place: cell.p for place, cell in cells.items() if cell.p is not None}
    found = dict(zip(tested, holm(list(tested.values())), strict=True))
    return {place: replace(cell, corrected=found.get(place)) for place, cell in cells.items()}


def _curves(methods: Sequence[str], everything: Everything) -> dict[tuple[str, str], dict[str, Curve]]:
    found: dict[tuple[str, str], dict[str, Curve]] = {}
    for (method, label), gathered in sorted(everything.items(), key=lambda item: methods.index(item[0][0])):
        for kind, curve in gathered.curves.items():
            found.setdefault((label, kind), {})[method] = curve
    return found


def _failures(everything: Everything) -> tuple[Failure, ...]:
    return tuple(
        Failure(image, method, label, reason)
        for (method, label), gathered in everything.items()
        for image, reason in gathered.failed.items()
    )


def _seconds(folder: Path, model: str, methods: Sequence[str]) -> dict[str, float]:
    """Mean seconds per map, over all runs into the folder."""
    totals: dict[str, list[float]] = {}
    path = folder / TIMES
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            entry = json.loads(line)
            if entry["model"] == model and entry["images"]:
                total = totals.setdefault(entry["method"], [0.0, 0.0])  # seconds, images
                total[0] += entry["seconds"]
                total[1] += entry["images"]
        except (ValueError, KeyError, TypeError):
            continue  # incomplete: the run was stopped
    return {method: totals[method][0] / totals[method][1] for method in methods if method in totals}
