"""Charts of mean curves, one line per method, as inline SVG that needs no script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.types import Array

from .gather import Curve

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 10, 38
# The colours of Okabe and Ito, distinct for every kind of colour vision; after 8 methods they repeat dashed.
INKS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a7b00")
DASHES = ("", "7 4", "2 3", "9 3 2 3")


@dataclass(frozen=True, slots=True)
class Line:
    """The curve of one method; its colour and dashes are the same in every chart of the page."""

    method: str
    ink: str
    dash: str
    points: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Everything the template needs to draw one chart."""

    title: str
    x_title: str
    y_title: str
    lines: tuple[Line, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


TITLES: dict[str, tuple[str, str, str]] = {
    "insertion": ("Insertion", "share of pixels shown, most relevant first", "probability of the class"),
    "deletion": ("Deletion", "share of pixels removed, most relevant first", "probability of the class"),
    "similarity": ("Parameter randomisation", "share of stages with random weights, head first", "rank correlation"),
}


def style(at: int) -> tuple[str, str]:
    """Colour and dash pattern of method number `at`."""
    return INKS[at % len(INKS)], DASHES[at // len(INKS) % len(DASHES)]


def chart(measure: str, kind: str, curves: Mapping[str, Curve], methods: tuple[str, ...]) -> Chart:
    """A chart with the curves of several methods."""
    title, x_title, y_title = TITLES.get(kind, (kind, "", ""))
    options = measure[measure.index("[") :] if "[" in measure else ""
    heights = np.concatenate([curve.y for curve in curves.values()])
    low, high = min(0.0, float(heights.min())), max(float(heights.max()), 1e-6)
    ticks = _steps(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])
    lines = []
    for method, curve in curves.items():
        ink, dash = style(methods.index(method))
        lines.append(Line(method, ink, dash, _points(curve, low, high)))
    return Chart(
        title=f"{title} {options}".strip(),
        x_title=x_title,
        y_title=y_title,
        lines=tuple(lines),
        x_ticks=tuple(Tick(_x(np.array(share)), f"{share:g}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)),
        y_ticks=tuple(Tick(float(_y(np.array(value), low, high)), f"{value:g}") for value in ticks),
    )


def _x(share: Array) -> float:
    return float(LEFT + share * (WIDTH - LEFT - RIGHT))


def _y(value: Array, low: float, high: float) -> Array:
    return np.asarray(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM))


def _points(curve: Curve, low: float, high: float) -> str:
    heights = _y(curve.y, low, high)
    return " ".join(f"{_x(x):.1f},{y:.1f}" for x, y in zip(curve.x, heights, strict=True))


def _steps(low: float, high: float) -> list[float]:
    """Four to seven round numbers that cover the range."""
    raw = (high - low) / 5
    size = 10.0 ** np.floor(np.log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw)
    return [round(float(step * k), 10) for k in range(int(np.floor(low / step)), int(np.ceil(high / step)) + 1)]
