"""Runs NumPy work in threads: NumPy releases the interpreter lock while it computes.

This pays for few large jobs. Many small ones wait for the lock, and memory allocated inside a thread is not reused:
allocate what a job needs before it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from gradskip_onnx.machine import CORES

WORTH_A_THREAD = 1 << 20  # array elements; less work is done before a thread has started

Job = TypeVar("Job")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Job], Result], jobs: Sequence[Job], numbers: int) -> list[Result]:
    """[work(job) for job in jobs], in threads; jobs start in order. `numbers` counts the array elements of all jobs."""
    results: list[Any] = [None] * len(jobs)
    queue = iter(enumerate(jobs))  # shared by the threads: taking the next item is atomic

    def drain() -> None:
        for position, job in queue:
            results[position] = work(job)

    helpers = min(CORES, len(jobs), numbers // WORTH_A_THREAD) - 1  # this thread works too
    if helpers < 1:
        drain()
        return results
    with ThreadPoolExecutor(helpers) as pool:
        running = [pool.submit(drain) for _ in range(helpers)]
        drain()
        for helper in running:
            helper.result()
    return results
