"""Compares two audits image by image: the findings of a comparison, each with its interval overall and by class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.findings.estimates import COVERAGE, Estimate, estimates, mean, share, share_change, standing_out
from gradskip_onnx.findings.found import Better, Finding, Findings, Flag
from gradskip_onnx.findings.row import EXAMPLES, amount
from gradskip_onnx.imports.optional import import_optional
from gradskip_onnx.metrics.statistics import Interval
from gradskip_onnx.types import Array

from .measures import MEASURES
from .pairs import Pairs, Step, pair

RESAMPLES = 2000
TAIL = 0.05  # the share of the images with the lowest similarity


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Two audits and what was found between them; examples are positions in the first."""

    first: Audit
    second: Audit
    pairs: Pairs
    found: Findings


@dataclass(frozen=True, slots=True)
class Row:
    """A finding of a comparison: the column it reads, and how its values become one number."""

    name: str
    definition: str
    unit: str
    better: Better
    column: str
    estimate: Callable[[int, int], Estimate]  # (resamples, seed)
    flags: bool = True  # whether classes that stand out are named


def compare(
    first: Audit, second: Audit, *, resamples: int = RESAMPLES, seed: int = 0, step: Step | None = None
) -> Comparison:
    """The comparison of two audits of the same images; `step` is called with the name of each pair."""
    pairs = pair(first, second, step or _silent)
    found = tuple(_finding(row, pairs, row.estimate(resamples, seed)) for row in ROWS)
    return Comparison(first, second, pairs, Findings(len(pairs.images), found))


def tail(span: tuple[float, float]) -> Callable[[int, int], Estimate]:
    """The value that TAIL of the images stay below, with its exact interval, whatever the distribution.

    So many of n images as Binomial(n, TAIL) says lie below the true value: its ends are those of ranks. Fewer than 72
    images may all lie above it, so that only `span` is below them.
    """

    def estimate(_resamples: int, _seed: int) -> Estimate:
        def quantile(values: Array) -> Interval:
            if len(values) > 1 and np.ptp(values) == 0:  # as of a file and itself: certain, as their mean is
                return Interval(float(values[0]), float(values[0]), float(values[0]), len(values))
            count, rising = len(values), np.concatenate([span[:1], np.sort(values), span[1:]])
            below = import_optional("scipy.stats", "audit").binom(count, TAIL)
            low, high = (int(below.ppf(end)) for end in ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2))
            return Interval(float(np.quantile(values, TAIL)), float(rising[low]), float(rising[high + 1]), count)

        return quantile

    return estimate


def _mean(span: tuple[float, float]) -> Callable[[int, int], Estimate]:
    return lambda resamples, seed: mean(span, resamples, seed)


def _share(_resamples: int, _seed: int) -> Estimate:
    return share


def _share_change(_resamples: int, _seed: int) -> Estimate:
    return share_change


ROWS: tuple[Row, ...] = (
    Row("flips", "images to which the two give different classes", "share of images", "lower", "flipped", _share),
    *(Row(one.name, one.definition, one.unit, "higher", one.name, _mean(one.span)) for one in MEASURES),
    *(
        Row(f"{one.name}-tail", f"the value of {one.name} that the worst twentieth of the images stays below", one.unit,
            "higher", one.name, tail(one.span), flags=False)
        for one in MEASURES
    ),
    Row("accuracy-change", "how much more often the second is right", "share of labelled images", "higher",
        "accuracy_change", _share_change),
    Row("probability-change", "probability that the second gives to the class it explains, minus that of the first",
        "difference of probabilities", "neither", "probability_change", _mean((-1.0, 1.0))),
)  # fmt: skip

NAMES = tuple(row.name for row in ROWS)


def _finding(row: Row, pairs: Pairs, estimate: Estimate) -> Finding:
    values = pairs.columns[row.column]
    overall, classes = estimates(values, pairs.classes, estimate)
    sign = {"higher": 1, "lower": -1, "neither": 0}[row.better]
    order = np.argsort(values * sign if sign else -np.abs(values), kind="stable")
    worst = [int(at) for at in order if not np.isnan(values[at])][:EXAMPLES]
    if row.name == "flips":
        worst = [at for at in worst if values[at]]
    apart = standing_out(values, pairs.classes).items() if row.flags else ()
    text = "{} worse than the other classes"
    flags = tuple(Flag(index, text.format(amount(gap, row.unit))) for index, gap in apart if gap * sign < 0)
    return Finding(
        row.name,
        row.definition,
        row.unit,
        row.better,
        overall,
        classes,
        tuple(int(pairs.positions[0][at]) for at in worst),
        flags,
    )


def _silent(_name: str) -> None:
    """Show no progress."""
