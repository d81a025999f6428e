"""The model as it was given: its bytes, where they lie, and their hash, which is computed while others work."""

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
    """A file, or bytes that have none."""

    name: str
    data: Array  # (size,) uint8
    path: Path | None  # with links followed: weights are looked up beside it
    asked: Path | None  # as it was written: settings are looked up beside it
    hashing: Future[Any]

    @property
    def folder(self) -> Path | None:
        return None if self.path is None else self.path.parent

    def sha256(self, others: Iterable[Path] = ()) -> str:
        """The hash of the model and of the weight files beside it, in this order."""
        digest = self.hashing.result().copy()
        for path in others:
            digest.update(bytes_of(path))
        return str(digest.hexdigest())


def open_model_file(model: str | os.PathLike[str] | bytes) -> ModelFile:
    """Open a model without reading it."""
    name, data, path = _opened(model)
    asked = None if isinstance(model, bytes) else Path(model)
    worker = ThreadPoolExecutor(1)
    hashing = worker.submit(hashlib.sha256, data.data)  # lets other threads run
    worker.shutdown(wait=False)
    return ModelFile(name, data, path, asked, hashing)


def open_if_possible(model: Path) -> ModelFile | Path:
    """The same, or the path itself where it cannot be opened: whoever reads it will say why."""
    try:
        return open_model_file(model)
    except ModelError:
        return model


def _opened(model: str | os.PathLike[str] | bytes) -> tuple[str, Array, Path | None]:
    if isinstance(model, bytes):
        return "<bytes>", np.frombuffer(model, np.uint8), None
    path = Path(model)
    try:
        return path.name, bytes_of(path), path.resolve()
    except FileNotFoundError as missing:
        raise ModelError(f"model file {path} does not exist") from missing
    except OSError as failure:
        raise ModelError(f"model file {path} cannot be read: {failure.strerror}") from failure
