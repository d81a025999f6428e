"""Coordinate search: one option after another gets the best of its values, until a whole round changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.types import Array

Settings = dict[str, float]  # values of options by name
# For each of the settings a value per image, (images,), higher is better; None where the settings do not work.
Score = Callable[[Sequence[Settings]], Sequence[Array | None]]
ROUNDS = 2  # the second finds little, a third next to nothing


@dataclass(frozen=True, slots=True)
class Axis:
    """An option and the values that are tried."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The settings found, their mean and that of the start, and how many settings were scored."""

    settings: Settings
    score: float
    start: float
    tried: int


def most_tried(axes: Sequence[Axis]) -> int:
    """How many settings a search scores at most: the start, and in each round every other value of every option."""
    return 1 + ROUNDS * sum(len(axis.values) - 1 for axis in axes)


def coordinate_search(
    start: Mapping[str, float], axes: Sequence[Axis], score: Score, allowed: Callable[[Settings], bool] = lambda _: True
) -> Found:
    """Search from `start`; no settings are scored twice, and those that are not `allowed` never.

    The values of one option are scored in one call. An option changes only where the mean gain over the images is
    larger than its standard error: of many values some are ahead by chance.
    """
    scores: dict[tuple[tuple[str, float], ...], Array | None] = {}

    def rate(many: Sequence[Settings]) -> list[tuple[Settings, Array]]:
        """The settings that work, with their values."""
        new = [settings for settings in many if _key(settings) not in scores]
        if new:
            scores.update(zip(map(_key, new), score(new), strict=True))
        return [(settings, values) for settings in many if (values := scores[_key(settings)]) is not None]

    ((best, values),) = rate([dict(start)])
    first = values
    for _ in range(ROUNDS):
        before = best
        for axis in axes:
            others = [best | {axis.name: value} for value in axis.values if value != best[axis.name]]
            rated = rate([settings for settings in others if allowed(settings)])
            if rated:
                leader, theirs = max(rated, key=lambda pair: float(pair[1].mean()))
                if beats(theirs, values):
                    best, values = leader, theirs
        if best == before:
            break
    return Found(best, float(values.mean()), float(first.mean()), len(scores))


def beats(ours: Array, theirs: Array) -> bool:
    """Whether the mean of the differences, image by image, is larger than its standard error."""
    gains = ours - theirs
    error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else 0.0
    return bool(gains.mean() > error)


def _key(settings: Settings) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(settings.items()))
