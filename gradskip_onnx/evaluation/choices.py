"""What is measured: the table of every metric, of whatever kind, and the measurements they read their numbers off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from gradskip_onnx.errors import InputError
from gradskip_onnx.metrics import METRICS, Choice, ImageMetric
from gradskip_onnx.metrics.table import Row

from .cost import GFLOPS
from .metric_kinds import GroupMetric
from .randomisation import RANDOMISATION

M = TypeVar("M", ImageMetric, GroupMetric)

EVERY_METRIC: Mapping[str, Row] = {**METRICS, RANDOMISATION.name: RANDOMISATION, GFLOPS.name: GFLOPS}


def find_metric(name: str) -> Row:
    """A row of the table of every metric."""
    if name not in EVERY_METRIC:
        raise InputError(f"unknown metric {name!r}; known: {', '.join(EVERY_METRIC)}")
    return EVERY_METRIC[name]


def choose_metric(name: str, **options: Any) -> Choice[Row]:
    """A metric of any kind by its name; unknown names, options and values are refused."""
    return Choice.of(find_metric(name), options)


@dataclass(frozen=True, slots=True)
class Measurement(Generic[M]):
    """What is done for an image, or some, and a method; several metrics may read their numbers off one measurement."""

    name: str
    choice: Choice[M]

    @property
    def label(self) -> str:
        """Its name and the options that differ from the defaults."""
        return self.name + self.choice.label.removeprefix(self.choice.row.name)

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self.choice.options)


def measurements(metrics: Sequence[Choice[M]]) -> tuple[Measurement[M], ...]:
    """Each measurement that the metrics need, once."""
    found: dict[tuple[str, Any], Measurement[M]] = {}
    for choice in metrics:
        found.setdefault(_identity(choice), Measurement(choice.row.measure.__name__, choice))
    return tuple(found.values())


def measurement_of(choice: Choice[Any], among: Sequence[Measurement[Any]]) -> Measurement[Any]:
    """The measurement that a metric reads."""
    return next(each for each in among if _identity(each.choice) == _identity(choice))


def _identity(choice: Choice[Any]) -> tuple[str, Any]:
    return choice.row.measure.__qualname__, choice.options
