"""Work on arrays side by side: NumPy lets other threads run while it computes.

That pays for few large steps. Many small ones would wait for each other, and memory that a thread asks for is new each
time: what a job needs should be there before it starts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
WORTH_A_THREAD = 1 << 20  # numbers to look at; fewer are done with before a thread is started

Job = TypeVar("Job")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Job], Result], jobs: Sequence[Job], numbers: int) -> list[Result]:
    """work(job) for each job; `numbers` is how many there are to look at in all of them. The first jobs start first."""
    found: list[Any] = [None] * len(jobs)
    waiting = iter(enumerate(jobs))  # handing out the next one is atomic

    def some() -> None:
        for place, job in waiting:
            found[place] = work(job)

    more = min(THREADS, len(jobs), numbers // WORTH_A_THREAD) - 1
    if more < 1:
        some()
        return found
    with ThreadPoolExecutor(more) as pool:
        others = [pool.submit(some) for _ in range(more)]
        some()
        for other in others:
            other.result()
    return found
