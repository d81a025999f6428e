"""Writes a model file, with its weights beside it where one file cannot hold them: whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import onnx

from gradskip_onnx.errors import InputError
from gradskip_onnx.model_file.mapped_weights import lies_elsewhere, weight_bytes
from gradskip_onnx.output.atomic import make_folder, rename_whole, scratch_folder
from gradskip_onnx.types import Source
from gradskip_onnx.untrusted_files import shortened

LARGEST_INLINE = 1_500_000_000  # bytes of weights; a protobuf file ends at 2 GiB and the graph needs room too
WORTH_A_FILE = 100_000_000  # bytes of weights above which external weights of the source stay external


def refuse_overwriting(path: Path, force: bool) -> None:
    """Raise InputError if the file exists and `force` is not set."""
    if os.path.lexists(path) and not force:
        raise _taken(path)


def _taken(path: Path) -> InputError:
    return InputError(f"{path} exists already; choose another name or give --force")


def save(model: onnx.ModelProto, path: Path, source: Source | None = None, *, force: bool = False) -> list[Path]:
    """Write a model completely or not at all; `source` is the model it was made from, for its external weights.

    Weights go into a second file if one file cannot hold them, or if they are large and external in the source.
    """
    refuse_overwriting(path, force)
    size, was_external = weight_bytes(model), source is not None and bool(source.others)
    external = size > LARGEST_INLINE or (was_external and size > WORTH_A_FILE)
    if source is not None and any(lies_elsewhere(tensor) for tensor in model.graph.initializer):
        onnx.load_external_data_for_model(model, str(source.folder))
    try:
        make_folder(path.parent)
        with scratch_folder(path.parent) as scratch:
            whole = scratch / path.name
            location = f"{path.name}.data" if external else None
            onnx.save_model(model, whole, save_as_external_data=external, location=location)
            written = sorted(scratch.iterdir(), key=lambda file: file == whole)  # the model file last
            for file in written:
                file.chmod(whole.stat().st_mode)  # onnx makes weight files readable by their owner only
            return _put_in_place(written, path, force)
    except OSError as failure:
        raise InputError(f"{shortened(path)} cannot be written: {failure.strerror or failure}") from failure


def _put_in_place(written: Sequence[Path], path: Path, force: bool) -> list[Path]:
    """Give the finished files their names beside `path`, the model last: where it is, all is there.

    A model that is replaced goes before its weights do, so that it is never read with those of another.
    """
    if force and len(written) > 1:
        path.unlink(missing_ok=True)
    placed: list[Path] = []
    for file in written:
        try:
            rename_whole(file, path.with_name(file.name), force)
        except FileExistsError as taken:
            for earlier in placed:
                earlier.unlink()
            raise _taken(path.with_name(file.name)) from taken
        placed.append(path.with_name(file.name))
    return placed[::-1]
