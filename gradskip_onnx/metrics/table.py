"""The table of metrics: what is measured on one image, and how the numbers of many images become one."""

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
    """What was seen on one image: named numbers, curves (2, points) of x and y, or why it does not count."""

    numbers: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    curves: Mapping[str, Array] = field(default_factory=lambda: EMPTY)
    excluded: str = ""


def first(terms: Array) -> Array:
    """The mean over images of a number each image has by itself."""
    return terms[..., 0]


@dataclass(frozen=True, slots=True)
class Row:
    """What a metric of any kind has: a name, a line about it, and its options, a dataclass."""

    name: str
    summary: str
    options: type[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(Row):
    """A number for each image. `terms` are the numbers of a measurement that this row reads.

    Over a dataset the terms are averaged first and `finish` (vectorised over leading axes) makes one value of them,
    so a mean of values and a ratio of sums, as in an accumulated IoU, are the same loop.
    """

    better: Better
    span: tuple[float, float]  # the lowest and highest value there can be
    terms: tuple[str, ...]
    finish: Callable[[Array], Array] = first

    def read(self, measured: Measured) -> Array | None:
        """The terms of one image, None if it is excluded."""
        return None if measured.excluded else np.array([measured.numbers[name] for name in self.terms])

    def value(self, measured: Measured) -> float | None:
        """The value of one image by itself."""
        return self.over([measured])

    def over(self, many: Sequence[Measured]) -> float | None:
        """The value of a dataset; None where every image is excluded."""
        kept = [terms for terms in map(self.read, many) if terms is not None]
        return float(self.finish(np.mean(kept, axis=0))) if kept else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMetric(Metric):
    """Measured image by image; `measure` may serve several rows."""

    measure: Callable[[Sample, Saliency, Score, Any], Measured]
    passes: Callable[[Any], int]  # forward passes an image
    needs: tuple[str, ...] = ()  # fields of Sample of which one must be there

    def lacks(self, sample: Sample) -> bool:
        """Whether the ground truth this metric needs is missing."""
        return bool(self.needs) and all(getattr(sample, name) is None for name in self.needs)


R = TypeVar("R", bound=Row)

METRICS: dict[str, ImageMetric] = {}


def metric(row: ImageMetric) -> ImageMetric:
    """Add a row to the table; a name can be taken once."""
    if row.name in METRICS:
        raise ValueError(f"metric {row.name!r} is registered twice")
    METRICS[row.name] = row
    return row


@dataclass(frozen=True, slots=True)
class Choice(Generic[R]):
    """A metric with its options settled."""

    row: R
    options: Any

    @classmethod
    def of(cls, row: R, options: Mapping[str, Any]) -> Choice[R]:
        """Unknown options and values are refused."""
        return cls(row, settle(f"metric {row.name}", row.options, options))

    @property
    def label(self) -> str:
        """The name and whatever differs from the defaults: `insertion[substrate=black]`."""
        return label(self.row.name, self.options)


def choose(name: str, **options: Any) -> Choice[ImageMetric]:
    """A metric by its name; unknown names, options and values are refused."""
    if name not in METRICS:
        raise InputError(f"unknown metric {name!r}; known: {', '.join(METRICS)}")
    return Choice.of(METRICS[name], options)


def measure(choices: Sequence[Choice[ImageMetric]], sample: Sample, saliency: Saliency, score: Score) -> list[Measured]:
    """One measurement a choice; choices that need the same one share it, so the model is asked once."""
    usable(saliency, sample)
    made: dict[Any, Measured] = {}
    found = []
    for choice in choices:
        key = (choice.row.measure, choice.options)
        if choice.row.lacks(sample):
            found.append(Measured(excluded=f"no {' or '.join(choice.row.needs)}"))
            continue
        if key not in made:
            made[key] = choice.row.measure(sample, saliency, score, choice.options)
        found.append(made[key])
    return found
