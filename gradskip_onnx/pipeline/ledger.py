"""A file of results by key, a line of JSON each, appended as soon as it is known: a run that was stopped goes on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradskip_onnx.errors import InputError
from gradskip_onnx.output.json_text import encode_json

FORMAT = 1


def key_of(facts: Mapping[str, Any]) -> str:
    """A name for everything a result depends on: one setting changed, and the result is another."""
    return hashlib.sha256(encode_json(facts, indent=None)).hexdigest()[:32]


@dataclass(slots=True)
class Ledger:
    """The file and the keys of what it holds; `failed` are those whose result is an error."""

    path: Path
    done: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)

    @classmethod
    def open(cls, path: Path) -> Ledger:
        """Read what is there; a last line that was cut off when a run was stopped is removed."""
        ledger = cls(path)
        _mend(ledger.path)
        for record in ledger.records():
            ledger._note(record)
        return ledger

    def lacks(self, key: str, *, retry: bool = False) -> bool:
        """Whether the result is still to be found; with `retry` also where it was an error."""
        return key not in self.done or (retry and key in self.failed)

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a record with its `key`, and an `error` if it failed.

        One line in one write: a run that is stopped leaves whole lines, at worst half of the last.
        """
        line = encode_json({"format": FORMAT, **record}, indent=None)
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
            try:
                while line:  # a full disk takes a part
                    line = line[os.write(handle, line) :]
            finally:
                os.close(handle)
        except OSError as error:
            raise InputError(f"output {self.path}: cannot be written ({error.strerror or error})") from None
        self._note(record)

    def _note(self, record: Mapping[str, Any]) -> None:
        self.done.add(record["key"])
        if record.get("error"):
            self.failed.add(record["key"])
        else:
            self.failed.discard(record["key"])

    def records(self) -> Iterator[dict[str, Any]]:
        """The lines of the file, one at a time."""
        if not self.path.exists():
            return
        with self.path.open(encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                yield self._record(number, line)

    def _record(self, number: int, line: str) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict) or not isinstance(record.get("key"), str) or record.get("format") != FORMAT:
            raise InputError(f"{self.path}: line {number} is not a result of this program; move the file away")
        return record


def _mend(path: Path) -> None:
    if not path.exists():
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
