"""A cache folder of small files by key: written atomically, checksummed when read, safe to delete at any time.

Whoever can write an entry chooses the graph that is run. Entries are used only if the folder and the file belong to the
user and nobody else can write to them; a folder that others have put in the place of ours fails that, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradskip_onnx.limits import CACHE_BYTES, CACHE_ENTRY_BYTES, CACHE_FILES

VARIABLE = "GRADSKIP_CACHE"  # environment variable: a folder, or `off` for no cache
OFF = ("", "off", "0", "no")
ENDING = ".kept"
FLAGS = ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")  # those that this system has
DIGEST = 32  # bytes; a file starts with the SHA-256 of the data that follows


@dataclass(frozen=True, slots=True)
class CacheFolder:
    """Cache entries in `folder`. Entries are replaced by a rename and never edited, so no lock is needed."""

    folder: Path

    def get(self, facts: Mapping[str, Any]) -> bytes | None:
        """The data stored under the key `facts`, or None; a file that fails its checksum is removed."""
        path = self._path(facts)
        whole = None if self.distrust() else _read_own(path)
        if whole is None:
            return None
        data = whole[DIGEST:]
        if hashlib.sha256(data).digest() != whole[:DIGEST]:
            _remove(path)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # pruning removes the least recently used entries first
        return data

    def distrust(self) -> str:
        """Why the folder is not used, or nothing; one that does not exist yet will be made for the user alone."""
        try:
            link, state = self.folder.lstat(), self.folder.stat()
        except OSError:
            return ""
        for each in (link, state):
            if reason := _others_may_write(each):
                return f"the cache folder {self.folder} is not used: {reason}; `chmod 700` it or see {VARIABLE}"
        return ""

    def put(self, facts: Mapping[str, Any], data: bytes) -> None:
        """Store `data` under the key `facts`; a full disk or a read-only folder is not an error, nothing is stored."""
        if len(data) > CACHE_ENTRY_BYTES.amount:
            return
        with contextlib.suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.distrust():
                return
            handle, scratch = tempfile.mkstemp(dir=self.folder, prefix=".", suffix=ENDING)
            try:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(hashlib.sha256(data).digest() + data)
                os.replace(scratch, self._path(facts))
            except OSError:
                _remove(Path(scratch))
            self._prune(self._path(facts))

    def files(self) -> list[tuple[Path, os.stat_result]]:
        """All entries, and temporary files of writers that died; most recently used first."""
        now = time.time_ns()
        found = [(path, state) for path in self._listed() if (state := _state(path))]
        # a date in the future was written before the clock was set back, and says nothing about use
        return sorted(found, key=lambda pair: pair[1].st_mtime_ns if pair[1].st_mtime_ns <= now else 0, reverse=True)

    def clear(self) -> int:
        """Remove all entries and return how many were removed."""
        return sum(_remove(path) for path, _ in self.files())

    def _prune(self, newest: Path) -> None:
        """Remove the least recently used entries beyond the limits; never `newest`, whatever the clock says."""
        size = 0
        for count, (path, state) in enumerate(self.files(), 1):
            size += state.st_size
            if (count > CACHE_FILES.amount or size > CACHE_BYTES.amount) and path != newest:
                _remove(path)

    def _listed(self) -> Iterator[Path]:
        with contextlib.suppress(OSError):
            yield from (path for path in self.folder.iterdir() if path.name.endswith(ENDING))

    def _path(self, facts: Mapping[str, Any]) -> Path:
        key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        return self.folder / f"{key}{ENDING}"


def default_cache() -> CacheFolder | None:
    """The cache folder of this user, or None where the environment variable turns it off."""
    setting = os.environ.get(VARIABLE)
    if setting is not None:
        return None if setting.lower() in OFF else CacheFolder(Path(setting))
    from platformdirs import user_cache_path

    return CacheFolder(user_cache_path("gradskip-onnx", appauthor=False))


def _read_own(path: Path) -> bytes | None:
    """The content of an entry; None for what is no regular file, too large, or open to others."""
    try:
        # links are not followed, and a pipe does not make us wait
        handle = os.open(path, os.O_RDONLY | sum(getattr(os, flag, 0) for flag in FLAGS))
    except OSError:
        return None
    try:
        state, most = os.fstat(handle), CACHE_ENTRY_BYTES.amount + DIGEST
        if not stat.S_ISREG(state.st_mode) or state.st_size > most or _others_may_write(state):
            return None
        with os.fdopen(handle, "rb", closefd=False) as stream:
            return stream.read(most)
    except OSError:
        return None
    finally:
        os.close(handle)


def _others_may_write(state: os.stat_result) -> str:
    """Why somebody else may have written a file or folder, or nothing; Windows keeps user folders closed by itself."""
    if not hasattr(os, "geteuid"):
        return ""
    if state.st_uid != os.geteuid():
        return f"it belongs to user {state.st_uid}"
    return "others can write to it" if not stat.S_ISLNK(state.st_mode) and state.st_mode & 0o022 else ""


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
