"""Coordinate search: one option after another gets the best of its values, until a whole round changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Settings = dict[str, float]  # values of options by name
Score = Callable[[Sequence[Settings]], Sequence[float]]  # one number for each of the settings; higher is better
ROUNDS = 2  # the second finds little, a third next to nothing


@dataclass(frozen=True, slots=True)
class Axis:
    """An option and the values that are tried."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The best settings, their score and that of the start, and how many settings were scored."""

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
    """Search from `start`; no settings are scored twice, and an option changes only where the score is truly higher.

    The values of one option are scored in one call. Settings that are not `allowed` are never scored.
    """
    scores: dict[tuple[tuple[str, float], ...], float] = {}

    def rate(many: Sequence[Settings]) -> None:
        new = [settings for settings in many if _key(settings) not in scores]
        if new:
            scores.update(zip(map(_key, new), score(new), strict=True))

    best = dict(start)
    rate([best])
    for _ in range(ROUNDS):
        before = best
        for axis in axes:
            others = [best | {axis.name: value} for value in axis.values if value != best[axis.name]]
            candidates = [best, *filter(allowed, others)]
            rate(candidates)
            best = max(candidates, key=lambda settings: scores[_key(settings)])  # the first of equals: no change
        if best == before:
            break
    return Found(best, scores[_key(best)], scores[_key(dict(start))], len(scores))


def _key(settings: Settings) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(settings.items()))
