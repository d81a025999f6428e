"""The table of protocols of Insertion and Deletion: steps, end points, ties and area of published code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from gradskip_onnx.errors import InputError
from gradskip_onnx.types import Array

from .substrates import SUBSTRATES, Blur, Substrate, uniform, zero

KINDS = ("insertion", "deletion")
PERCENT = (1, 5, *range(10, 101, 10))  # points of the curves of the group that published MUTEX and GradSkip


def _both(name: str) -> dict[str, str]:
    return dict.fromkeys(KINDS, name)


def even_cuts(pixels: int, steps: int) -> Array:
    """Numbers of changed pixels (steps + 1,) from 0 to all, as evenly spaced as whole pixels allow."""
    return np.arange(steps + 1) * pixels // steps


def whole_cuts(pixels: int, steps: int) -> Array:
    """Steps of ceil(pixels / steps) pixels, the last one shorter."""
    step = -(-pixels // steps)
    return np.minimum(np.arange(-(-pixels // step) + 1) * step, pixels)


def percent_cuts(pixels: int, steps: int) -> Array:
    """0 and the fixed percentages of the pixels."""
    if steps != len(PERCENT):
        raise InputError(f"steps: got {steps}, but protocol group has {len(PERCENT)} fixed points; leave steps at 0")
    return np.array([0, *(int(q * pixels / 100) for q in PERCENT)])


def whole_curve(kind: str, cuts: Array, scores: Array) -> Array:
    """Share of changed pixels and probability, (2, points), both ends included."""
    del kind
    return np.stack([cuts / cuts[-1], scores])


def counted_curve(kind: str, cuts: Array, scores: Array) -> Array:
    """As `whole_curve`, with the share of steps: the last step counts like the others, however few pixels it has."""
    del kind
    return np.stack([np.arange(len(cuts)) / (len(cuts) - 1), scores])


def after_changes(kind: str, cuts: Array, scores: Array) -> Array:
    """As `counted_curve`, without the start before any change, as in TIS."""
    return counted_curve(kind, cuts, scores)[:, 1:]


def group_curve(kind: str, cuts: Array, scores: Array) -> Array:
    """Insertion without its 0 % point; Deletion with the value 0 at 0 %, as published, although p(x) must be meant."""
    curve = whole_curve(kind, cuts, scores)
    if kind == "insertion":
        return curve[:, 1:]
    curve[1, 0] = 0.0
    return curve


def trapezoid(x: Array, y: Array) -> float:
    """Area under the curve by the trapezoidal rule."""
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))


def average(x: Array, y: Array) -> float:
    """Mean of the values."""
    del x
    return float(y.mean())


@dataclass(frozen=True, slots=True)
class Protocol:
    """One protocol; `usual` names the default substrate of each curve."""

    steps: int = 28
    spacing: Callable[[int, int], Array] = even_cuts
    shown: Callable[[str, Array, Array], Array] = whole_curve  # (2, points): x, y
    area: Callable[[Array, Array], float] = trapezoid
    ties: str = "seeded"  # or "last": of equal pixels the last comes first
    resample: str = "bilinear"  # or "nearest"
    usual: Mapping[str, str] = field(default_factory=lambda: _both("mean"))
    substrates: Mapping[str, Substrate] = field(default_factory=lambda: SUBSTRATES)
    blur: Blur = field(default_factory=Blur)

    def cuts(self, pixels: int, steps: int) -> Array:
        """The number of changed pixels at each point of a curve, from 0 to all."""
        cuts = self.spacing(pixels, steps or self.steps)
        if (np.diff(cuts) < 1).any():
            raise InputError(f"steps: got {steps or self.steps} for {pixels} pixels; every step must change a pixel")
        return cuts


PROTOCOLS: dict[str, Protocol] = {
    "canonical": Protocol(),
    "rise": Protocol(
        spacing=whole_cuts,
        shown=counted_curve,
        ties="last",
        usual={"insertion": "blur", "deletion": "zero"},
        blur=Blur(folded=True),
    ),
    "tis": Protocol(
        steps=224,
        spacing=whole_cuts,
        shown=after_changes,
        area=average,
        usual=_both("blur"),
        substrates=SUBSTRATES | {"black": zero, "random": uniform},
    ),
    "group": Protocol(
        steps=len(PERCENT),
        spacing=percent_cuts,
        shown=group_curve,
        resample="nearest",
        substrates=SUBSTRATES | {"black": zero},
        blur=Blur(15, 7.0),
    ),
}
