"""What a finding is measured by: the mean of a value an image, its examples, and the classes that stand out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.metrics.statistics import Interval
from gradskip_onnx.types import Array

from .estimates import Estimate, below_zero, estimates, mean, share, standing_out
from .found import Better, Finding, Flag
from .observed import Observed

EXAMPLES = 12
Values = Callable[[Observed], Array]  # one an image, NaN where it has none
Span = tuple[float, float]


def standard_error(values: Array) -> float:
    """That of a mean; infinite for one value."""
    return float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else float("inf")


def measure_images(row: Row, observed: Observed) -> Finding:
    """The mean of a value an image, or a share of images; flags classes that stand out or are worse than chance."""
    assert row.values is not None
    found, classes = row.values(observed), observed.classes(row.by)
    estimate: Estimate = share if row.shares else mean(row.span, observed.resamples, observed.seed)
    overall, of_classes = estimates(found, classes, estimate)
    flags = outliers(row, found, classes)
    if row.chance is not None:
        flags = (*_worse_than_chance(row, found, row.chance(observed), classes), *flags)
    return finding(row, overall, of_classes, examples=striking(row, observed, found), flagged=flags)


@dataclass(frozen=True, slots=True)
class Row:
    """A finding: its words, the value of each image and what becomes of these."""

    name: str
    definition: str
    unit: str
    better: Better
    values: Values | None  # None: the finding is of classes alone
    span: Span = (0.0, 1.0)  # of the values
    shares: bool = False  # whether the values are 0 and 1
    by: str = "target"  # the column that says the class of an image
    chance: Values | None = None  # what each image would have if its map said nothing
    error: Callable[[Array], float] = standard_error  # of the mean of values
    measure: Callable[[Row, Observed], Finding] = measure_images


def finding(
    row: Row,
    overall: Interval | None,
    classes: Mapping[int, Interval],
    *,
    examples: tuple[int, ...] = (),
    flagged: tuple[Flag, ...] = (),
) -> Finding:
    """A finding with the words of its row."""
    return Finding(row.name, row.definition, row.unit, row.better, overall, classes, examples, flagged)


def striking(row: Row, observed: Observed, values: Array) -> tuple[int, ...]:
    """The positions of the worst images; where nothing is better, of those farthest from the median."""
    known = ~np.isnan(values)
    if not known.any() or np.ptp(values[known]) == 0:
        return ()
    badness = {"higher": -values, "lower": values, "neither": np.abs(values - np.median(values[known]))}[row.better]
    order = np.argsort(-badness[known], kind="stable")[:EXAMPLES]
    return tuple(int(position) for position in observed.positions[known][order])


def outliers(row: Row, values: Array, classes: Array) -> tuple[Flag, ...]:
    """Classes that differ from all others, to the worse where there is a worse."""
    worse = {"higher": -1, "lower": 1, "neither": 0}[row.better]
    found = {index: gap for index, gap in standing_out(values, classes).items() if not worse or gap * worse > 0}
    text = "{} {} than the other classes, a large difference beyond chance"
    return tuple(
        Flag(index, text.format(amount(gap, row.unit), "more" if gap > 0 else "less")) for index, gap in found.items()
    )


def amount(gap: float, unit: str) -> str:
    """A difference without its sign, in words; that of two shares in percentage points."""
    return f"{100 * abs(gap):.1f} percentage points" if unit.startswith("share") else f"{abs(gap):.3g}"


def _worse_than_chance(row: Row, values: Array, chance: Array, classes: Array) -> tuple[Flag, ...]:
    higher = row.better == "higher"
    gaps, best = (values - chance, row.span[1] - chance) if higher else (chance - values, chance - row.span[0])
    overall, worse = below_zero(gaps, best, classes)
    words = "less than" if higher else "more than"
    text = f"{words} the area of the place gives by chance"
    return tuple(Flag(index, text) for index in ([None] if overall else []) + worse)
