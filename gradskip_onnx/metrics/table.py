"""The table of metrics; a row says what is measured on one image and how many images become one number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from gradskip_onnx.errors import InputError
from gradskip_onnx.methods.options import label, settle
from gradskip_onnx.types import EMPTY, Array

from .sample import Saliency, Sample, Score, usable

Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """The measurement of one image: named numbers, curves (2, points) of x and y, or why it is excluded."""

    numbers: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    curves: Mapping[str, Array] = field(default_factory=lambda: EMPTY)
    excluded: str = ""


def first(terms: Array) -> Array:
    """The mean of a single term: the `finish` of metrics that are one number per image."""
    return terms[..., 0]


@dataclass(frozen=True, slots=True)
class Row:
    """What every metric has: a name, a one-line summary, and a dataclass of options."""

    name: str
    summary: str
    options: type[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(Row):
    """A metric made from `terms`, numbers that are measured on each image.

    Over a dataset the terms are averaged, and `finish` (vectorised over leading axes) turns the means into one value;
    so the same loop serves a mean of values and a ratio of sums, as in an accumulated IoU.
    """

    better: Better
    span: tuple[float, float]  # the lowest and highest possible value
    terms: tuple[str, ...]
    finish: Callable[[Array], Array] = first

    def read(self, measured: Measured) -> Array | None:
        """The terms of one image; None if it is excluded."""
        return None if measured.excluded else np.array([measured.numbers[name] for name in self.terms])

    def value(self, measured: Measured) -> float | None:
        """The value of one image; None if it is excluded."""
        return self.over([measured])

    def over(self, many: Sequence[Measured]) -> float | None:
        """The value of a dataset; None if every image is excluded."""
        kept = [terms for terms in map(self.read, many) if terms is not None]
        return float(self.finish(np.mean(kept, axis=0))) if kept else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMetric(Metric):
    """A metric measured image by image; several rows may share one `measure`."""

    measure: Callable[[Sample, Saliency, Score, Any], Measured]
    passes: Callable[[Any], int]  # options -> forward passes per image
    needs: tuple[str, ...] = ()  # fields of Sample, at least one of which must be set

    def lacks(self, sample: Sample) -> bool:
        """Whether the ground truth this metric needs is missing."""
        return bool(self.needs) and all(getattr(sample, name) is None for name in self.needs)


R = TypeVar("R", bound=Row)

METRICS: dict[str, ImageMetric] = {}


def metric(row: ImageMetric) -> ImageMetric:
    """Add a row to the table; a second row of the same name raises ValueError."""
    if row.name in METRICS:
        raise ValueError(f"metric {row.name!r} is registered twice")
    METRICS[row.name] = row
    return row


@dataclass(frozen=True, slots=True)
class Choice(Generic[R]):
    """A metric with its options; `options` is an instance of `row.options`."""

    row: R
    options: Any

    @classmethod
    def of(cls, row: R, options: Mapping[str, Any]) -> Choice[R]:
        """Check the options; unknown names and values raise InputError."""
        return cls(row, settle(f"metric {row.name}", row.options, options))

    @property
    def label(self) -> str:
        """The name and all options that differ from their defaults: `insertion[substrate=black]`."""
        return label(self.row.name, self.options)


def choose(name: str, **options: Any) -> Choice[ImageMetric]:
    """Look up a metric and check its options; unknown names, options and values raise InputError."""
    if name not in METRICS:
        raise InputError(f"unknown metric {name!r}; known: {', '.join(METRICS)}")
    return Choice.of(METRICS[name], options)


def measure(choices: Sequence[Choice[ImageMetric]], sample: Sample, saliency: Saliency, score: Score) -> list[Measured]:
    """One measurement per choice; choices with the same `measure` and options share one."""
    usable(saliency, sample)
    cache: dict[Any, Measured] = {}
    found = []
    for choice in choices:
        key = (choice.row.measure, choice.options)
        if choice.row.lacks(sample):
            found.append(Measured(excluded=f"no {' or '.join(choice.row.needs)}"))
            continue
        if key not in cache:
            cache[key] = choice.row.measure(sample, saliency, score, choice.options)
        found.append(cache[key])
    return found
