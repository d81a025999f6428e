"""What is compared: methods with their options settled, and what is measured of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gradskip_onnx.errors import InputError
from gradskip_onnx.methods.options import settle
from gradskip_onnx.metrics import METRICS, Choice, choose
from gradskip_onnx.metrics.table import Metric

from .randomisation import RANDOMISATION, Options

GFLOPS = "gflops"  # of a method, not of an image: counted once, from the graph
WHOLE_RUN: dict[str, Metric] = {RANDOMISATION.name: RANDOMISATION}  # measured on some images together


def choose_metric(name: str, **options: Any) -> Choice:
    """A metric by its name: of an image, or of some images together."""
    if name not in WHOLE_RUN:
        return choose(name, **options)
    return Choice(WHOLE_RUN[name], settle(f"metric {name}", Options, options))


def metric_names() -> tuple[str, ...]:
    return (*METRICS, *WHOLE_RUN, GFLOPS)


def metric_options(name: str) -> type[Any]:
    """The dataclass of a metric's options."""
    rows = METRICS | WHOLE_RUN
    if name not in rows:
        raise InputError(f"unknown metric {name!r}; known: {', '.join(metric_names())}")
    return rows[name].options


@dataclass(frozen=True, slots=True)
class Measurement:
    """What is done for one image and method; several metrics may read their numbers off one measurement."""

    name: str
    choice: Choice

    @property
    def label(self) -> str:
        """Its name and the options that differ from the defaults."""
        return self.name + self.choice.label.removeprefix(self.choice.row.name)

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self.choice.options)


def measurements(metrics: Sequence[Choice]) -> tuple[Measurement, ...]:
    """Each measurement that the metrics need, once."""
    found: dict[tuple[str, Any], Measurement] = {}
    for choice in metrics:
        found.setdefault(_identity(choice), Measurement(choice.row.measure.__name__, choice))
    return tuple(found.values())


def measurement_of(choice: Choice, among: Sequence[Measurement]) -> Measurement:
    """The measurement that a metric reads."""
    return next(each for each in among if _identity(each.choice) == _identity(choice))


def _identity(choice: Choice) -> tuple[str, Any]:
    return choice.row.measure.__qualname__, choice.options
