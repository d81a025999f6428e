"""A memory-mapped model file; its SHA-256 is computed in a background thread, and answers for every later read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gradskip_onnx.errors import ModelError
from gradskip_onnx.limits import MODEL_BYTES
from gradskip_onnx.types import Array
from gradskip_onnx.untrusted_files import shortened

from .mapped_weights import bytes_of


@dataclass(frozen=True, slots=True)
class HashedFile:
    """A file as it was just before it was hashed; None for the digest: that of the model, which may still be made."""

    identity: tuple[int, int]  # device and inode
    change: tuple[int, int, int]  # size, and when the content and anything at all changed; the last cannot be forged
    digest: bytes | None = None

    @classmethod
    def of(cls, path: Path) -> HashedFile:
        state = path.stat()
        return cls((state.st_dev, state.st_ino), (state.st_size, state.st_mtime_ns, state.st_ctime_ns))


@dataclass(frozen=True, slots=True, eq=False)
class ModelFile:
    """The bytes of a model: of a mapped file, or from memory (then both paths are None)."""

    name: str
    data: Array  # (size,) uint8
    path: Path | None  # symbolic links resolved: weight files are looked up beside it
    unresolved_path: Path | None  # as the user wrote it: configuration files are looked up beside it
    hashing: Future[Any]  # of a hashlib object
    hashed: dict[Path, HashedFile] = field(default_factory=dict)  # every file that went into a hash so far

    @property
    def folder(self) -> Path | None:
        return None if self.path is None else self.path.parent

    def sha256(self, others: Iterable[Path] = ()) -> str:
        """The hash of the model; with weight files `others`, of the model followed by the SHA-256 of each."""
        digest = self.hashing.result().copy()
        for path in others:
            before = HashedFile.of(path)
            self.hashed[path] = replace(before, digest=digest_of(path))
            digest.update(self.hashed[path].digest)
        return str(digest.hexdigest())

    def require_unchanged(self, *, mapped: bool = False) -> None:
        """Raise ModelError if a file that was hashed has other bytes by now; hashes it again only if its dates differ.

        With `mapped`, a file is unchanged if another took its place: the bytes of the old one are still mapped.
        """
        for path, before in self.hashed.items():
            try:
                now = HashedFile.of(path)
                if (now.identity, now.change) == (before.identity, before.change):
                    continue
                if (mapped and now.identity != before.identity) or digest_of(path) == self._digest(before):
                    continue
            except OSError:
                if mapped:
                    continue
            raise ModelError(f"{shortened(path)} was changed or replaced while it was in use; start again")

    def _digest(self, file: HashedFile) -> bytes:
        return bytes(self.hashing.result().digest()) if file.digest is None else file.digest


def open_model_file(model: str | os.PathLike[str] | bytes) -> ModelFile:
    """Map a model file and start hashing it; nothing is parsed."""
    if isinstance(model, bytes):
        return _hashing("<bytes>", np.frombuffer(model, np.uint8), None, None, {})
    path = Path(model)
    try:
        resolved = Path(os.path.realpath(path))
        str(resolved).encode()  # ONNX and ONNX Runtime take names in UTF-8 only
        before = HashedFile.of(resolved)
        MODEL_BYTES.check(before.change[0], f"model file {shortened(path)}")
        return _hashing(path.name, bytes_of(resolved), resolved, path, {resolved: before})
    except FileNotFoundError as missing:
        raise ModelError(f"model file {shortened(path)} does not exist") from missing
    except UnicodeEncodeError as unnamed:
        raise ModelError(f"model file {shortened(path)}: its path is not UTF-8, as ONNX needs; rename it") from unnamed
    except (OSError, ValueError) as failure:  # ValueError: a zero byte in the name
        reason = getattr(failure, "strerror", None) or failure
        raise ModelError(f"model file {shortened(path)} cannot be read: {reason}") from failure


def open_if_possible(model: Path) -> ModelFile | Path:
    """`open_model_file`, or the path itself if it cannot be opened; loading it later raises the error."""
    try:
        return open_model_file(model)
    except ModelError:
        return model


def _hashing(
    name: str, data: Array, path: Path | None, unresolved: Path | None, hashed: dict[Path, HashedFile]
) -> ModelFile:
    """A model whose hash is being computed."""
    worker = ThreadPoolExecutor(1)
    hashing = worker.submit(hashlib.sha256, data.data)  # hashlib releases the GIL
    worker.shutdown(wait=False)
    return ModelFile(name, data, path, unresolved, hashing, hashed)


def digest_of(path: Path) -> bytes:
    return hashlib.sha256(bytes_of(path).data).digest()
