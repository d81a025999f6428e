"""A memory-mapped model file; its SHA-256 is computed in a background thread."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradskip_onnx.errors import ModelError
from gradskip_onnx.types import Array

from .mapped_weights import bytes_of


@dataclass(frozen=True, slots=True, eq=False)
class ModelFile:
    """The bytes of a model: of a mapped file, or from memory (then both paths are None)."""

    name: str
    data: Array  # (size,) uint8
    path: Path | None  # symbolic links resolved: weight files are looked up beside it
    unresolved_path: Path | None  # as the user wrote it: configuration files are looked up beside it
    hashing: Future[Any]  # of a hashlib object

    @property
    def folder(self) -> Path | None:
        return None if self.path is None else self.path.parent

    def sha256(self, others: Iterable[Path] = ()) -> str:
        """The hash of the model followed by the weight files `others`."""
        digest = self.hashing.result().copy()
        for path in others:
            digest.update(bytes_of(path))
        return str(digest.hexdigest())


def open_model_file(model: str | os.PathLike[str] | bytes) -> ModelFile:
    """Map a model file and start hashing it; nothing is parsed."""
    name, data, path = _name_bytes_path(model)
    unresolved_path = None if isinstance(model, bytes) else Path(model)
    worker = ThreadPoolExecutor(1)
    hashing = worker.submit(hashlib.sha256, data.data)  # hashlib releases the GIL
    worker.shutdown(wait=False)
    return ModelFile(name, data, path, unresolved_path, hashing)


def open_if_possible(model: Path) -> ModelFile | Path:
    """`open_model_file`, or the path itself if it cannot be opened; loading it later raises the error."""
    try:
        return open_model_file(model)
    except ModelError:
        return model


def _name_bytes_path(model: str | os.PathLike[str] | bytes) -> tuple[str, Array, Path | None]:
    if isinstance(model, bytes):
        return "<bytes>", np.frombuffer(model, np.uint8), None
    path = Path(model)
    try:
        return path.name, bytes_of(path), path.resolve()
    except FileNotFoundError as missing:
        raise ModelError(f"model file {path} does not exist") from missing
    except OSError as failure:
        raise ModelError(f"model file {path} cannot be read: {failure.strerror}") from failure
