"""Interleaved timing: every round runs every contender once, in a new order, after a call that is not timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Contender = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds of one call."""

    median: float
    low: float  # quartiles
    high: float


def interleaved(contenders: Mapping[str, Contender], rounds: int, seed: int = 0) -> dict[str, Timing]:
    """Medians and quartiles; whatever slows the machine for a while slows all contenders alike."""
    rng = np.random.default_rng(seed)
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name in rng.permutation(list(contenders)):
            contenders[name]()
            began = time.perf_counter()
            contenders[name]()
            times[name].append(1e3 * (time.perf_counter() - began))
    return {
        name: Timing(*(float(value) for value in np.quantile(found, [0.5, 0.25, 0.75])))
        for name, found in times.items()
    }
