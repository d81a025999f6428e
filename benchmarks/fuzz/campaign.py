"""A run of many cases in a folder: a ledger to go on from, the faults as lines, and their files."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gradskip_onnx.output.atomic import write_whole
from gradskip_onnx.output.json_text import encode_json
from gradskip_onnx.pipeline.ledger import Ledger

from .case import Case, Verdict
from .watch import run
from .worker import folder_of

LEDGER, FAULTS, FILES = "ledger.jsonl", "faults.jsonl", "faults"
SECONDS = 20.0
LARGEST = 20 << 20  # bytes of a file that is kept with a fault; larger ones are sparse and easily made again

Record = dict[str, Any]


def campaign(
    cases: Sequence[Case], folder: Path, *, workers: int = 2, seconds: float = SECONDS, retry: bool = False
) -> Generator[Record, None, None]:
    """Make the cases that the ledger of the folder lacks, with `retry` also those that were faults; yield each."""
    folder.mkdir(parents=True, exist_ok=True)
    ledger = Ledger.open(folder / LEDGER)
    left = [case for case in cases if ledger.lacks(case.key, retry=retry)]
    try:
        with TemporaryDirectory(prefix="fuzz-") as place, closing(run(left, Path(place), workers, seconds)) as results:
            for case, facts in results:
                record = _record(case, facts)
                made = folder_of(Path(place), case)
                if "error" in record:
                    _keep(made, folder_of(folder / FILES, case))
                shutil.rmtree(made, ignore_errors=True)
                ledger.append(record)
                yield record
    finally:  # also of a run that is stopped
        faults = (encode_json(record, indent=None) for record in latest(folder).values() if "error" in record)
        write_whole(folder / FAULTS, b"".join(faults))


def latest(folder: Path) -> dict[str, Record]:
    """The last record of each case in a folder."""
    return {record["key"]: record for record in Ledger(folder / LEDGER).records()}


def fault_class(record: Mapping[str, Any]) -> str:
    """What a fault is called: where it was planted, and what came of it."""
    return f"{record['kind']}/{record.get('row', '?')}: {record['outcome']}"


def _record(case: Case, facts: Mapping[str, Any]) -> Record:
    record = {"key": case.key, "kind": case.kind, "number": case.number, "seed": case.seed, **facts}
    if Verdict(record["outcome"]).fault:
        record["error"] = record["outcome"]
    return {name: value for name, value in record.items() if value not in ("", None)}


def _keep(made: Path, kept: Path) -> None:
    """Copy the files of a case, so that its call can be repeated by hand; pipes and huge files are left out."""
    shutil.rmtree(kept, ignore_errors=True)
    for path in sorted(made.rglob("*")):
        state = path.lstat()
        target = kept / path.relative_to(made)
        if stat.S_ISREG(state.st_mode) and state.st_size <= LARGEST:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        elif stat.S_ISLNK(state.st_mode):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(path.readlink())
