"""Reads class names from files: one name per line, ImageNet synset lines, JSON lists and dictionaries."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gradskip_onnx.errors import InputError
from gradskip_onnx.limits import CLASSES, TEXT_BYTES
from gradskip_onnx.untrusted_files import read_bounded

_SYNSET = re.compile(r"^n\d{8}[\s,:]+")


def read_text(path: Path) -> str:
    """The content of a small UTF-8 file; raises InputError with its path if it cannot be read."""
    try:
        text = read_bounded(path, TEXT_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path) -> object:
    """The content of a small JSON file; raises InputError with its path if it cannot be read."""
    return parse_json(read_text(path), str(path))


def parse_json(text: str, name: str) -> object:
    """The document in a text; errors call it `name`."""
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not JSON ({str(error)[:80]})") from None
    return document


def read_labels(path: Path | str) -> tuple[str, ...]:
    """Names by class index from a .json file (list or {index: name}) or a text file with one name per line."""
    path = Path(path)
    if path.suffix.lower() == ".json":
        labels = from_json(read_json(path), str(path))
    else:
        labels = tuple(_SYNSET.sub("", line.strip()) for line in read_text(path).rstrip().splitlines())
    if not any(labels):
        raise InputError(f"{path}: no class names in it")
    return labels


def as_labels(labels: str | os.PathLike[str] | Mapping[Any, str] | Sequence[str]) -> tuple[str, ...]:
    """Names by class index from what callers have: a list, a mapping of index to name, or the path of a file."""
    return read_labels(os.fspath(labels)) if isinstance(labels, str | os.PathLike) else from_json(labels, "labels")


def from_json(document: object, where: str) -> tuple[str, ...]:
    """Names from a list, {index: name}, {name: index} or a model configuration holding `id2label`."""
    if isinstance(document, Mapping) and isinstance(document.get("id2label"), Mapping):
        document = document["id2label"]
    if isinstance(document, Sequence) and not isinstance(document, str):
        return tuple(_name(entry, where) for entry in document)
    if not isinstance(document, Mapping) or not document:
        raise InputError(f"{where}: expected a list of names or an object of index: name")
    if all(isinstance(value, int) and not isinstance(value, bool) for value in document.values()):
        document = {value: key for key, value in document.items()}
    try:
        names = {int(key): _name(value, where) for key, value in document.items()}
    except (TypeError, ValueError):
        raise InputError(f'{where}: class indices are whole numbers, e.g. {{"0": "tench"}}') from None
    if min(names) < 0 or max(names) >= CLASSES.amount:
        raise InputError(f"{where}: class index {min(names)}..{max(names)}, allowed 0..{CLASSES.amount - 1}")
    return tuple(names.get(index, "") for index in range(max(names) + 1))


def _name(entry: object, where: str) -> str:
    """The name in an entry: a text, or the last text of a pair such as ["n01440764", "tench"]."""
    if isinstance(entry, Sequence) and not isinstance(entry, str) and entry and isinstance(entry[-1], str):
        entry = entry[-1]
    if not isinstance(entry, str):
        raise InputError(f"{where}: a class name is a text, got {entry!r:.60}")
    return _SYNSET.sub("", entry.strip())
