"""Threads for arithmetic that NumPy does outside Python's lock, as many as the caller allows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_allowed: ContextVar[int | None] = ContextVar("allowed", default=None)


@contextmanager
def limited(threads: int | None) -> Iterator[None]:
    """Inside, `in_parallel` uses at most this many threads; None: one for each core."""
    token = _allowed.set(threads)
    try:
        yield
    finally:
        _allowed.reset(token)


def in_parallel(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The results in the order of the items; they must not depend on each other."""
    waiting = list(items)
    threads = min(_allowed.get() or _cores(), len(waiting))
    if threads < 2:
        return [function(item) for item in waiting]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, waiting))


def _cores() -> int:
    """Those this process may use; not every system can say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
