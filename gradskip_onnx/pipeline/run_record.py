"""The record of a run over many images: done images are skipped, a killed run goes on, an overview is written.

The folder of results holds a ledger with two lines an image: one before its files are written, one after. Where only
the first is there, the files are those of a run that was stopped, and may be written again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradskip_onnx.errors import GradskipError, InputError
from gradskip_onnx.explanation.files import FileSettings, Written
from gradskip_onnx.limits import IMAGE_BYTES
from gradskip_onnx.output.atomic import write_whole, writing
from gradskip_onnx.output.folder import Folder
from gradskip_onnx.output.locks import locked
from gradskip_onnx.output.overview import CSV, PAGE, as_page, as_table
from gradskip_onnx.untrusted_files import read_bounded
from gradskip_onnx.version import __version__

from .explainer import Explainer
from .jobs import Job
from .ledger import Ledger, key_of
from .question import ExplainRequest

NAME = "explanations.jsonl"
BEGUN, DONE, FAILED = "begun", "done", "failed"


@dataclass(slots=True)
class RunRecord:
    """The ledger of a folder, its last line about each stem, and what all images of this run have in common."""

    folder: Folder
    ledger: Ledger
    last: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: str = ""  # a hash of the model and the options

    def pending(
        self, jobs: Iterable[Job], explainer: Explainer, request: ExplainRequest, files: FileSettings
    ) -> list[Job]:
        """The jobs that are left to do, with their names claimed; those done by the same model and options are not."""
        self.settings = key_of(run_facts(explainer, request, files))
        return [job for job in jobs if not self._is_done(job, claim=not request.likeliest)]

    def _is_done(self, job: Job, *, claim: bool) -> bool:
        found = self.last.get(job.stem)
        if found is None or job.stem.casefold() in self.folder.claimed:
            return False
        if self.folder.force:
            self.folder.claim([job.stem] if claim else [])
            return False
        same = found["state"] == FAILED or found["key"] == self._key(job, _sha256(job))
        if not same:
            raise InputError(
                f"output {self.folder.path / job.stem}: made from another image or model, or with other options; "
                "use --force to overwrite or another --output"
            )
        if found["state"] == DONE and all((self.folder.path / name).exists() for name in found["files"]):
            return True
        self.folder.claim([job.stem] if claim else [], again=self.began_before(job))
        return False

    def began_before(self, job: Job) -> bool:
        """Whether a run began to write files of this image, so that those of its name are ours."""
        found = self.last.get(job.stem)
        return found is not None and (found["state"] != FAILED or bool(found.get("begun")))

    def begin(self, job: Job, sha256: str | None) -> None:
        """Note that the files of an image, given by its hash, are about to be written."""
        self._append(job, sha256, BEGUN)

    def finish(self, job: Job, sha256: str | None, written: tuple[Written, ...]) -> None:
        """Note that the files of an image are there."""
        files = [path.name for one in written for path in one.files]
        grid = written[0].grid
        results = [{**_short(one.document), "files": [path.name for path in one.files]} for one in written]
        together = None if grid is None else grid.name
        self._append(job, sha256, DONE, files=files, results=results, together=together)

    def fail(self, job: Job, error: GradskipError) -> None:
        """Note that an image could not be explained; the next run tries it again."""
        self._append(job, None, FAILED, error=str(error), begun=self.began_before(job))

    def write_overview(self, title: str) -> None:
        """Write index.html and summary.csv, of every image the folder has results of."""
        rows = [row for row in self.last.values() if row["state"] != BEGUN]
        for name, content in ((PAGE, as_page(title, rows)), (CSV, as_table(rows))):
            with writing(self.folder.path / name):
                write_whole(self.folder.path / name, content)

    def _append(self, job: Job, sha256: str | None, state: str, **facts: Any) -> None:
        row = {"key": self._key(job, sha256), "stem": job.stem, "image": str(job.path), "state": state, **facts}
        self.ledger.append(row)
        self.last[job.stem] = row

    def _key(self, job: Job, sha256: str | None) -> str:
        return key_of({"stem": job.stem, "image": sha256, "settings": self.settings})


def claim_new(folder: Folder, jobs: Iterable[Job]) -> None:
    """Claim the names of images that the record of a folder does not know, before anything slow begins.

    Raises InputError where names are taken, or where the overview would overwrite pages that are not ours.
    """
    path = folder.path / NAME
    theirs = [name for name in (PAGE, CSV) if (folder.path / name).exists() and not path.exists()]
    if theirs and not folder.force:
        raise InputError(
            f"output {folder.path / theirs[0]} exists, and is not of an earlier run; "
            "use --force to overwrite or another --output"
        )
    known = _last_rows(Ledger(path))
    folder.claim(job.stem for job in jobs if job.stem not in known)


@contextmanager
def run_record(folder: Folder) -> Iterator[RunRecord]:
    """Hold the folder of results and its record while the block runs; raises InputError if another run holds it."""
    with locked(folder.path):
        ledger = Ledger.open(folder.path / NAME)
        yield RunRecord(folder, ledger, _last_rows(ledger))


def _last_rows(ledger: Ledger) -> dict[str, dict[str, Any]]:
    """The last whole line about each stem; a line that is being written by another run ends the reading."""
    found: dict[str, dict[str, Any]] = {}
    with suppress(InputError):
        for row in ledger.records():
            if isinstance(row.get("stem"), str) and _is_whole(row):
                found[row["stem"]] = row
    return found


def run_facts(explainer: Explainer, request: ExplainRequest, files: FileSettings) -> dict[str, Any]:
    """Everything that the files of an image depend on, besides the image."""
    question = request.question
    method, region = explainer.settled(question.method), question.region
    mask = isinstance(region, np.ndarray)
    return {
        "version": __version__,
        "model": explainer.sha256,
        "labels": explainer.labels,
        "preprocess": explainer.preprocess.as_dict() | {"source": ""},
        "method": method.row.name,
        "options": method.settings,
        "score": question.score,
        "region": hashlib.sha256(region.tobytes()).hexdigest() if mask else region,  # type: ignore[union-attr]
        "target": request.target,
        "likeliest": request.likeliest,
        "files": files.facts(),
    }


def _sha256(job: Job) -> str | None:
    """The hash of an image file; None if it cannot be read, which opening it will report."""
    try:
        return hashlib.sha256(read_bounded(job.path, IMAGE_BYTES)).hexdigest()
    except InputError:
        return None


def _is_whole(row: Mapping[str, Any]) -> bool:
    """Whether a line of the file, which anybody may have edited, has the fields that are read of it."""
    files, state = row.get("files"), row.get("state")
    if not isinstance(row.get("image"), str):
        return False
    if state == DONE:
        named = isinstance(files, list) and all(isinstance(name, str) for name in files)
        return named and isinstance(row.get("results"), list)
    return state == BEGUN or (state == FAILED and isinstance(row.get("error"), str))


def _short(document: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a document that the overview shows."""
    return {
        "target": document["target"],
        "top": document["top"][:3],
        "method": document["method"],
        "model": document["model"]["file"],
        "task": document["task"],
    }
