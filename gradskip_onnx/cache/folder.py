"""A folder of small files by key: each is whole or absent, checked when it is read, and may be lost at any time."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "GRADSKIP_CACHE"  # a folder; `off` for none
OFF = ("", "off", "0", "no")
MOST_FILES = 256
MOST_BYTES = 512 << 20
LARGEST = 64 << 20  # of one entry: a model whose weights are not in a file is not worth a second copy
ENDING = ".kept"
DIGEST = 32  # bytes of a SHA-256, in front of what it is of


@dataclass(frozen=True, slots=True)
class CacheFolder:
    """Entries are never changed, only replaced by a rename, so readers and writers need no lock."""

    folder: Path

    def get(self, facts: Mapping[str, Any]) -> bytes | None:
        """What was put under these facts; a damaged file is removed and counts as absent."""
        path = self._path(facts)
        try:
            whole = path.read_bytes()
        except OSError:
            return None
        data = whole[DIGEST:]
        if hashlib.sha256(data).digest() != whole[:DIGEST]:
            _remove(path)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # the entries used last are kept longest
        return data

    def put(self, facts: Mapping[str, Any], data: bytes) -> None:
        """Keep `data`, if it can be kept: a full disk or a folder that cannot be written to is no failure."""
        if len(data) > LARGEST:
            return
        with contextlib.suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, scratch = tempfile.mkstemp(dir=self.folder, prefix=".", suffix=ENDING)
            try:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(hashlib.sha256(data).digest() + data)
                os.replace(scratch, self._path(facts))
            except OSError:
                _remove(Path(scratch))
            self._prune()

    def files(self) -> list[tuple[Path, os.stat_result]]:
        """Every entry, and what is left of writers that died; the one used last comes first."""
        found = [(path, state) for path in self._listed() if (state := _state(path))]
        return sorted(found, key=lambda pair: pair[1].st_mtime_ns, reverse=True)

    def clear(self) -> int:
        """Remove all entries; how many there were."""
        return sum(_remove(path) for path, _ in self.files())

    def _prune(self) -> None:
        size = 0
        for count, (path, state) in enumerate(self.files(), 1):
            size += state.st_size
            if count > MOST_FILES or size > MOST_BYTES:
                _remove(path)

    def _listed(self) -> Iterator[Path]:
        with contextlib.suppress(OSError):
            yield from (path for path in self.folder.iterdir() if path.name.endswith(ENDING))

    def _path(self, facts: Mapping[str, Any]) -> Path:
        key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        return self.folder / f"{key}{ENDING}"


def default_cache() -> CacheFolder | None:
    """The cache of this user; none where the environment says so."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return None if named.lower() in OFF else CacheFolder(Path(named))
    from platformdirs import user_cache_path

    return CacheFolder(user_cache_path("gradskip-onnx", appauthor=False))


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
