"""A process that makes cases one after the other: sets the scene, makes the call, judges."""

from __future__ import annotations

import os
import shutil
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.zoo.jobs import end_with_parent
from gradskip_onnx.limits import ELEMENTS, RUN_BYTES

from .case import EXPLAIN, IMAGE, MODEL, Answer, Case, Scene, Verdict
from .command import CommandLine
from .judge import judge
from .kinds import KINDS
from .seeds import encoded, model_bytes, picture

BROKEN = "fuzzer"  # class of a fault of our own: a mutator raised


def serve(connection: Connection, scratch: Path) -> None:
    """Answer cases until there are no more; each is announced before its call, in case the call never ends."""
    end_with_parent()
    for limit in (ELEMENTS, RUN_BYTES):  # as where little memory is free, so that a verdict is that of any machine
        os.environ.setdefault(limit.variable, str(limit.default))
    command = CommandLine.open()
    answer_of = _seed_answers(command, scratch)
    answer_of("vit")  # imports and first use are not part of any case
    connection.send(("ready", {}))
    while (case := connection.recv()) is not None:
        start = perf_counter()
        row = KINDS[case.kind].row(case.number)
        connection.send(("row", {"row": row}))
        facts = _made(case, row, folder_of(scratch, case), command, answer_of, connection)
        connection.send(("done", {**facts, "seconds": round(perf_counter() - start, 3)}))


def folder_of(scratch: Path, case: Case) -> Path:
    return scratch / f"{case.kind}-{case.number}"


def _made(
    case: Case, row: str, folder: Path, command: CommandLine, answer_of: Any, connection: Connection
) -> dict[str, Any]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.chdir(folder)
    try:
        trial = KINDS[case.kind].rows[row](Scene(folder, case.rng(), command.call, answer_of))
    except Exception as failure:  # noqa: BLE001 - a broken mutator is a result, and the run goes on
        return _facts(Verdict(BROKEN, f"{type(failure).__name__}: {str(failure)[:200]}"))
    connection.send(("trial", {"what": trial.what, "arguments": list(trial.arguments)}))
    seen = command.tried(trial)
    return _facts(judge(trial, seen)) | {"megabytes": round(seen.megabytes, 1), "trace": seen.trace}


def _facts(verdict: Verdict) -> dict[str, Any]:
    return {"outcome": verdict.outcome, "detail": verdict.detail}


def _seed_answers(command: CommandLine, scratch: Path) -> Any:
    """The answers for unchanged models, each made once."""

    @cache
    def answer_of(name: str) -> Answer:
        here, folder = Path.cwd(), scratch / f"seed-{os.getpid()}-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MODEL).write_bytes(model_bytes(name))
        (folder / IMAGE).write_bytes(encoded(picture()))
        os.chdir(folder)
        seen = command.call((*EXPLAIN, "--no-cache", "--force"))
        os.chdir(here)
        if seen.answer is None:
            raise RuntimeError(f"the unchanged model {name} is not explained: {seen.trace or seen.stderr}")
        return seen.answer

    return answer_of
