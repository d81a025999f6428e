"""A results file of one JSON line per result, appended as results come in, so that a stopped run can resume."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradskip_onnx.errors import InputError
from gradskip_onnx.output.atomic import writing
from gradskip_onnx.output.json_text import encode_json
from gradskip_onnx.untrusted_files import open_regular

FORMAT = 1
# A pipe in place of the file must not make us wait for its reader; Windows must be told that bytes are meant.
APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def key_of(facts: Mapping[str, Any]) -> str:
    """The key of a result: a hash of everything it depends on, so that a changed setting gives another key."""
    return hashlib.sha256(encode_json(facts, indent=None)).hexdigest()[:32]


@dataclass(slots=True)
class Ledger:
    """The results file and the keys in it; `failed` holds the keys whose result is an error."""

    path: Path
    done: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)

    @classmethod
    def open(cls, path: Path) -> Ledger:
        """Read the file, if it exists; a last line that a stopped run left incomplete is removed."""
        ledger = cls(path)
        _drop_incomplete_line(ledger.path)
        for record in ledger.records():
            ledger._note(record)
        return ledger

    def lacks(self, key: str, *, retry: bool = False) -> bool:
        """Whether the result of a key is missing; with `retry` an error counts as missing."""
        return key not in self.done or (retry and key in self.failed)

    def append(self, record: Mapping[str, Any]) -> None:
        """Append a record with a `key`, and an `error` if it failed.

        Each line is one write, so a stopped run leaves at most the last line incomplete.
        """
        append_line(self.path, encode_json({"format": FORMAT, **record}, indent=None))
        self._note(record)

    def _note(self, record: Mapping[str, Any]) -> None:
        self.done.add(record["key"])
        if record.get("error"):
            self.failed.add(record["key"])
        else:
            self.failed.discard(record["key"])

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the records of the file, one at a time."""
        if not self.path.exists():
            return
        try:
            with open_regular(self.path) as stream:
                for number, line in enumerate(stream, 1):
                    yield self._record(number, line)
        except OSError as error:
            raise InputError(f"output {self.path}: cannot be read ({error.strerror or error})") from None

    def _record(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict) or not isinstance(record.get("key"), str) or record.get("format") != FORMAT:
            raise InputError(f"{self.path}: line {number} is not a result of this program; move the file away")
        return record


def append_line(path: Path, line: bytes) -> None:
    """Write a line at the end of a file, or nothing: where it does not fit, as on a full disk, it is cut off again."""
    with writing(path):
        handle = os.open(path, APPEND, 0o666)
        try:
            start = os.fstat(handle).st_size
            _write_all(handle, line, start)
        finally:
            os.close(handle)


def _write_all(handle: int, line: bytes, start: int) -> None:
    try:
        while line:  # os.write may write only a part
            line = line[os.write(handle, line) :]
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(handle, start)
        raise


def _drop_incomplete_line(path: Path) -> None:
    """Cut the file after its last line break."""
    if not path.is_file():  # what else it may be, `records` finds out
        return
    try:
        with path.open("rb+") as stream:
            end = stream.seek(0, os.SEEK_END)
            while end > 0:
                start = max(0, end - (1 << 16))
                stream.seek(start)
                cut = stream.read(end - start).rfind(b"\n")
                if cut >= 0:
                    stream.truncate(start + cut + 1)
                    return
                end = start
            stream.truncate(0)
    except OSError as error:
        raise InputError(f"output {path}: cannot be read and written ({error.strerror or error})") from None
