"""The charts of a report as numbers that a template draws: intervals by class, and histograms over images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.findings.found import Finding
from gradskip_onnx.findings.words import PERCENT, SHARE, value_text
from gradskip_onnx.metrics.statistics import Interval
from gradskip_onnx.types import Array

WIDTH = 560
LEFT, RIGHT = 172, 30  # beside the drawn part; names of classes stand on the left
ROW, TOP, FOOT = 24, 8, 30
MOST_CLASSES = 16
FEWEST = 5  # images of a class below which its value says little
LONGEST = 20  # characters of a name
BINS = 20
BAR_WIDTH, BAR_HEIGHT = 220, 110


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on the axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Range:
    """A class: its value and interval as places on the axis, and in words."""

    name: str
    value: str
    y: float
    at: float
    low: float
    high: float
    flagged: bool


@dataclass(frozen=True, slots=True)
class Ranges:
    """A finding by class; `overall` is where the line of all images stands."""

    rows: tuple[Range, ...]
    left_out: int  # classes that are not drawn
    ticks: tuple[Tick, ...]
    overall: float
    height: int
    width: int = WIDTH
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP


@dataclass(frozen=True, slots=True)
class Bar:
    """One bin: where it is drawn, and what it says."""

    x: float
    y: float
    width: float
    height: float
    span: str
    count: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """How a number is spread over the images."""

    title: str
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    mean: float  # where its line stands
    words: str
    width: int = BAR_WIDTH
    height: int = BAR_HEIGHT


def ranges(finding: Finding, name_of: Callable[[int], str]) -> Ranges | None:
    """A finding by class; None where fewer than two classes have enough images."""
    classes = {index: one for index, one in finding.classes.items() if one.count >= FEWEST}
    if finding.overall is None or len(classes) < 2:
        return None
    flagged = {flag.index for flag in finding.flagged}
    chosen = _chosen(classes, flagged)
    shown = [classes[index] for index in chosen]
    low, high, ticks = _axis([finding.overall, *shown], finding.unit)

    def x(value: float) -> float:
        return round(LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT), 1)

    rows = tuple(
        Range(shortened(name_of(index)), value_text(one.value, finding.unit), TOP + ROW * (at + 0.5), x(one.value),
              x(one.low), x(one.high), index in flagged)
        for at, (index, one) in enumerate(zip(chosen, shown, strict=True))
    )  # fmt: skip
    marks = tuple(Tick(x(value), value_text(value, finding.unit).replace(f".0{PERCENT}", PERCENT)) for value in ticks)
    height = TOP + ROW * len(rows) + FOOT
    return Ranges(rows, len(classes) - len(rows), marks, x(finding.overall.value), height)


def _chosen(classes: Mapping[int, Interval], flagged: set[int | None]) -> list[int]:
    """The classes drawn, from the lowest value to the highest: all, or the flagged ones and those at both ends."""
    order = sorted(classes, key=lambda index: classes[index].value)
    if len(order) <= MOST_CLASSES:
        return order
    first = [index for index in order if index in flagged][:MOST_CLASSES]
    ends = [order[at // 2] if at % 2 == 0 else order[-1 - at // 2] for at in range(len(order))]
    kept = {*[*first, *(index for index in ends if index not in first)][:MOST_CLASSES]}
    return [index for index in order if index in kept]


def _axis(shown: Sequence[Interval], unit: str) -> tuple[float, float, list[float]]:
    """Ends and ticks of an axis over intervals: three to seven round numbers."""
    low, high = min(one.low for one in shown), max(one.high for one in shown)
    if high - low < 1e-9:
        low, high = low - 0.05, high + 0.05
    if unit.startswith(SHARE) and low >= 0 and high <= 1 and high - low > 0.5:
        low, high = 0.0, 1.0
    raw = (high - low) / 4
    size = 10.0 ** np.floor(np.log10(raw))
    step = float(next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw * (1 - 1e-9)))
    first, last = int(np.floor(low / step + 1e-9)), int(np.ceil(high / step - 1e-9))
    ticks = [round(step * at, 10) for at in range(first, last + 1)]
    return ticks[0], ticks[-1], ticks


def histogram(title: str, values: Array, span: tuple[float, float], words: str) -> Histogram | None:
    """How values are spread over a span; None without any value."""
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    low, high = span
    counts, edges = np.histogram(np.clip(known, low, high), bins=BINS, range=span)
    step, tallest = BAR_WIDTH / BINS, max(1, int(counts.max()))
    room = BAR_HEIGHT - 22
    bars = tuple(
        Bar(round(at * step + 0.5, 1), round(4 + room * (1 - count / tallest), 1), step - 1,
            round(room * count / tallest, 1), f"{edges[at]:g} to {edges[at + 1]:.3g}", int(count))
        for at, count in enumerate(counts)
    )  # fmt: skip
    ticks = tuple(Tick(BAR_WIDTH * part, f"{low + part * (high - low):g}") for part in (0.0, 0.5, 1.0))
    mean = BAR_WIDTH * (float(np.clip(known.mean(), low, high)) - low) / (high - low)
    return Histogram(title, bars, ticks, round(mean, 1), words)


def shortened(text: str) -> str:
    """A name that fits beside a chart."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
