"""The table of all metrics, of every kind, and the measurements that they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from typing import Any, Generic, TypeVar

from gradskip_onnx.imports.plugins import PluginRows
from gradskip_onnx.metrics import METRICS, Choice, ImageMetric
from gradskip_onnx.metrics.table import Row

from .cost import GFLOPS
from .map_checks import CLASS_SENSITIVITY, NOISE_STABILITY
from .metric_kinds import GroupMetric
from .randomisation import RANDOMISATION
from .zero_shift import ZERO_SHIFT

M = TypeVar("M", ImageMetric, GroupMetric)

OTHER_KINDS: tuple[Row, ...] = (RANDOMISATION, CLASS_SENSITIVITY, NOISE_STABILITY, ZERO_SHIFT, GFLOPS)
EVERY_METRIC: Mapping[str, Row] = {**METRICS, **{row.name: row for row in OTHER_KINDS}}
PLUGINS: PluginRows[Row] = PluginRows("metric", "gradskip_onnx.metrics", ImageMetric, lambda row: fields(row.options()))


def find_metric(name: str) -> Row:
    """The metric of this name, ours or of an installed package; raises InputError for an unknown name."""
    return PLUGINS.find(name, EVERY_METRIC)


def every_metric() -> dict[str, Row]:
    """Every metric, ours and of installed packages, by name."""
    return PLUGINS.every(EVERY_METRIC)


def choose_metric(name: str, **options: Any) -> Choice[Row]:
    """A metric of any kind with its options; raises InputError for an unknown name, option or value."""
    return Choice.of(find_metric(name), options)


@dataclass(frozen=True, slots=True)
class Measurement(Generic[M]):
    """A measure function with its options; several metrics may take their numbers from one measurement."""

    name: str
    choice: Choice[M]

    @property
    def label(self) -> str:
        """Name, and the options that differ from the defaults."""
        return self.name + self.choice.label.removeprefix(self.choice.row.name)

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self.choice.options)

    @property
    def package(self) -> str:
        """The installed package that brings the metric, with its version; empty for a metric of our own."""
        return PLUGINS.package(self.choice.row.name, EVERY_METRIC)

    def blame(self) -> AbstractContextManager[None]:
        """Errors of a package's metric name the package."""
        return PLUGINS.blame(self.choice.row.name, EVERY_METRIC)


def measurements(metrics: Sequence[Choice[M]]) -> tuple[Measurement[M], ...]:
    """The measurements that the metrics need, without duplicates."""
    found: dict[tuple[str, Any], Measurement[M]] = {}
    for choice in metrics:
        found.setdefault(_identity(choice), Measurement(_name(choice.row.measure), choice))
    return tuple(found.values())


def measurement_of(choice: Choice[Any], among: Sequence[Measurement[Any]]) -> Measurement[Any]:
    """The measurement that a metric takes its numbers from."""
    return next(one for one in among if _identity(one.choice) == _identity(choice))


def _name(measure: Callable[..., Any]) -> str:
    """The name of a measurement in the ledger; a package's function may be called like one of ours."""
    ours = measure.__module__.startswith("gradskip_onnx.")
    return measure.__name__ if ours else f"{measure.__module__}.{measure.__qualname__}"


def _identity(choice: Choice[Any]) -> tuple[str, Any]:
    return f"{choice.row.measure.__module__}.{choice.row.measure.__qualname__}", choice.options
