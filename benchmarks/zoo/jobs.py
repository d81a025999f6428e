"""Many small jobs in worker processes: one that raises, or takes its process down, is a result like any other."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from typing import Any, TypeVar

Job = TypeVar("Job")
LAST = 2000  # characters of a traceback worth keeping: the end says what happened


@dataclass(frozen=True, slots=True)
class Failure:
    """A job that did not return."""

    reason: str
    trace: str


def run(work: Callable[[Job], Any], jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Any]]:
    """Each job with what it returned or its Failure, in the order in which they end."""
    left = list(jobs)
    pool = _pool(workers)
    flying: dict[Future[Any], Job] = {}
    while left or flying:
        while left and len(flying) < workers:
            job = left.pop(0)
            flying[pool.submit(_guarded, work, job)] = job
        done, _ = wait(flying, return_when=FIRST_COMPLETED)
        if not any(isinstance(future.exception(), BrokenProcessPool) for future in done):
            yield from ((flying.pop(future), future.result()) for future in done)
            continue
        pool.shutdown()
        for job in flying.values():  # one of them is to blame: each gets a process of its own
            yield job, _alone(work, job)
        flying, pool = {}, _pool(workers)
    pool.shutdown()


def _pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=end_with_parent)


def end_with_parent() -> None:
    """Workers would wait for jobs for ever when the process that gives them out is killed, by whatever signal."""
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            connection.wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _alone(work: Callable[[Job], Any], job: Job) -> Any:
    with _pool(1) as pool:
        future = pool.submit(_guarded, work, job)
        gone = future.exception()
        return future.result() if gone is None else Failure("the process died", str(gone))


def _guarded(work: Callable[[Job], Any], job: Job) -> Any:
    try:
        return work(job)
    except Exception as failure:  # noqa: BLE001 - whatever a third party raises is what this zoo is to record
        reason = (str(failure).strip() or type(failure).__name__).splitlines()[0][:300]
        return Failure(f"{type(failure).__name__}: {reason}", traceback.format_exc()[-LAST:])
