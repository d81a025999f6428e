"""Interleaved timing: every round runs every contender once, in a new order."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Contender = Callable[[], object]
LONG = 1.0  # seconds; of calls that take longer, what ran before does not change the time


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds of one call."""

    median: float
    low: float  # quartiles
    high: float


def interleaved(contenders: Mapping[str, Contender], rounds: int, seed: int = 0) -> dict[str, Timing]:
    """Medians and quartiles; whatever slows the machine for a while slows all contenders alike.

    Each timed call comes after one that is not timed, so that the contender before it leaves no trace; long calls are
    made once.
    """
    rng = np.random.default_rng(seed)
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name in rng.permutation(list(contenders)):
            first = _seconds(contenders[name])
            times[name].append(first if first > LONG else _seconds(contenders[name]))
    return {name: quartiles([1e3 * seconds for seconds in found]) for name, found in times.items()}


def quartiles(values: list[float]) -> Timing:
    return Timing(*(float(value) for value in np.quantile(values, [0.5, 0.25, 0.75])))


def _seconds(call: Contender) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
