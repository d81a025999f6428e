"""A cache folder of small files by key: written atomically, checksummed when read, safe to delete at any time."""

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

VARIABLE = "GRADSKIP_CACHE"  # environment variable: a folder, or `off` for no cache
OFF = ("", "off", "0", "no")
MOST_FILES = 256
MOST_BYTES = 512 << 20
LARGEST = 64 << 20  # bytes of one entry; a model that carries its weights inside is not worth a second copy
ENDING = ".kept"
DIGEST = 32  # bytes; a file starts with the SHA-256 of the data that follows


@dataclass(frozen=True, slots=True)
class CacheFolder:
    """Cache entries in `folder`. Entries are replaced by a rename and never edited, so no lock is needed."""

    folder: Path

    def get(self, facts: Mapping[str, Any]) -> bytes | None:
        """The data stored under the key `facts`, or None; a file that fails its checksum is removed."""
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
            os.utime(path)  # pruning removes the least recently used entries first
        return data

    def put(self, facts: Mapping[str, Any], data: bytes) -> None:
        """Store `data` under the key `facts`; a full disk or a read-only folder is not an error, nothing is stored."""
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
        """All entries, and temporary files of writers that died; most recently used first."""
        found = [(path, state) for path in self._listed() if (state := _state(path))]
        return sorted(found, key=lambda pair: pair[1].st_mtime_ns, reverse=True)

    def clear(self) -> int:
        """Remove all entries and return how many were removed."""
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
    """The cache folder of this user, or None where the environment variable turns it off."""
    setting = os.environ.get(VARIABLE)
    if setting is not None:
        return None if setting.lower() in OFF else CacheFolder(Path(setting))
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
