"""Parts made by several processes of this machine; what a lost process was doing is done again by another."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread

from gradskip_onnx.errors import ModelError

from .settings import MOST_LOSSES, Step
from .work import PartWork

_held: list[PartWork] = []  # of this worker process: its sessions stay open from part to part


def run_in_processes(work: PartWork, parts: Sequence[int], step: Step) -> None:
    """Make the parts in `workers` processes, each with its own session."""
    processes = min(work.settings.workers, len(parts))
    sent, left, losses = work.for_other_processes(processes), list(parts), 0
    while left:
        done = _round(sent, left, step, work, processes)
        left = [part for part in left if part not in done]
        losses = 0 if done else losses + 1
        if left and losses == MOST_LOSSES:
            raise ModelError(
                f"worker processes end before they finish part {left[0]}, {losses} times now; "
                "they may lack memory: use fewer --workers or a smaller --batch-size"
            )


def _round(sent: PartWork, parts: Sequence[int], step: Step, work: PartWork, processes: int) -> set[int]:
    """Start a pool, and return the parts that were finished before it broke, or all of them."""
    done: set[int] = set()
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _begin, (sent,))
    try:
        for future in as_completed([pool.submit(_make, part) for part in parts]):
            part = future.result()
            done.add(part)
            for name in work.names(part):
                step(name)
    except BrokenProcessPool:
        pass  # a process was killed; the parts that are missing go to new ones
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return done


def _begin(work: PartWork) -> None:
    """Start of a worker process: it ends with its parent, in whatever way that ends."""
    _held.append(work)
    parent = parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _make(part: int) -> int:
    _held[0].make([part], _quietly)
    return part


def _quietly(_name: str) -> None:
    """Progress is counted by the parent."""
