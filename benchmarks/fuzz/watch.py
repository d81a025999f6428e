"""Gives cases to worker processes and watches them: time, memory, and whether they live."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic
from typing import Any

from .case import Case
from .judge import MEGABYTES
from .worker import serve

TICK = 0.05  # seconds between two looks at the memory: a bomb adds some 100 MB in that time
START = 120.0  # seconds a worker may take for its imports
GROWN = 500.0  # MB a worker may keep after its cases, before another takes its place
PAGE = os.sysconf("SC_PAGE_SIZE")

Serve = Callable[[Connection, Path], None]


@dataclass(slots=True)
class Worker:
    """A process, the case it works on, and what it said about it so far."""

    process: BaseProcess
    line: Connection
    case: Case | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    ready: bool = False
    began: float = 0.0
    deadline: float = 0.0
    first: float = 0.0  # MB held when it was ready
    held: float = 0.0  # MB held when the case began

    @classmethod
    def start(cls, serve: Serve, scratch: Path) -> Worker:
        ours, theirs = get_context("spawn").Pipe()
        process = get_context("spawn").Process(target=serve, args=(theirs, scratch), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours, deadline=monotonic() + START)

    def begin(self, case: Case, seconds: float) -> None:
        self.case, self.facts = case, {}
        self.began, self.held = monotonic(), self.megabytes()
        self.deadline = self.began + seconds
        with suppress(BrokenPipeError):  # died between two cases: seen at the next look
            self.line.send(case)

    def megabytes(self) -> float:
        """What the process holds now; 0 where the system does not say."""
        try:
            return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * PAGE / 2**20
        except OSError:
            return 0.0

    def listen(self) -> str:
        """Take in what was said; returns the last word, or `crash` if the process is gone."""
        word = ""
        try:
            while self.line.poll():
                word, facts = self.line.recv()
                self.facts |= facts
        except (EOFError, ConnectionResetError):
            self.process.join()
            return "crash"
        return word

    def trouble(self, seconds: float) -> tuple[str, str]:
        """The fault that the process must be ended for, if any."""
        if monotonic() > self.deadline:
            return "hang", f"no answer within {seconds:g} s"
        grown = self.megabytes() - self.held
        return ("memory", f"more than {MEGABYTES:.0f} MB") if self.case and grown > MEGABYTES else ("", "")

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.line.close()


def run(
    cases: Sequence[Case], scratch: Path, workers: int, seconds: float, serve: Serve = serve
) -> Generator[tuple[Case, dict[str, Any]], None, None]:
    """Each case with the facts of its verdict, in the order in which they end; `serve` is what workers do."""
    start = partial(Worker.start, serve, scratch)
    left = iter(cases)
    team = [start() for _ in range(min(workers, len(cases)))]
    try:
        while team:
            wait([worker.line for worker in team], TICK)
            for worker in list(team):
                yield from _look(worker, team, left, start, seconds)
    finally:
        for worker in team:
            worker.end()


def _look(
    worker: Worker, team: list[Worker], left: Iterator[Case], start: Callable[[], Worker], seconds: float
) -> Iterator[tuple[Case, dict[str, Any]]]:
    """Take what a worker has to say, end it if it must be, and give it the next case."""
    word = worker.listen()
    fault, detail = ("crash", f"the process died, code {worker.process.exitcode}") if word == "crash" else ("", "")
    if word == "ready":
        worker.ready, worker.first = True, worker.megabytes()
    elif word != "done" and not fault:
        fault, detail = worker.trouble(seconds)
    if fault:
        if worker.case is None:
            raise RuntimeError(f"a worker could not start: {detail}")
        spent = round(monotonic() - worker.began, 3)
        yield worker.case, {**worker.facts, "seconds": spent, "outcome": fault, "detail": detail}
    elif word == "done" and worker.case is not None:
        yield worker.case, worker.facts
        worker.case = None
    if fault or (word == "done" and worker.megabytes() - worker.first > GROWN):
        worker.end()
        team[team.index(worker)] = start()
    elif worker.ready and worker.case is None:
        _next(worker, team, left, seconds)


def _next(worker: Worker, team: list[Worker], left: Iterator[Case], seconds: float) -> None:
    case = next(left, None)
    if case is None:
        worker.end()
        team.remove(worker)
    else:
        worker.begin(case, seconds)
