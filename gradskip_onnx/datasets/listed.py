"""A list of images: a CSV file with labels, boxes and masks, or a text file with a path a line."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePath

import numpy as np

from gradskip_onnx.addresses import is_remote
from gradskip_onnx.errors import InputError
from gradskip_onnx.images.labels import read_text
from gradskip_onnx.images.read import Picture, open_picture
from gradskip_onnx.types import Array

from .entry import Box, Dataset, Entry
from .files import file_entry
from .layout import DatasetRequest, Layout
from .remote import RemoteFolder
from .synsets import find_synsets, index_of, read_synsets, unknown_note

SUFFIXES = (".csv", ".txt", ".list")
NAMES = ("image", "file")  # of the column with the path
LIGHT = 128  # pixels of a mask from this level on are the object
LARGEST = 1e6  # pixels of a side


@dataclass(slots=True)
class Line:
    """What the list says of one image; several lines of one image add up their boxes."""

    label: str = ""
    boxes: list[Box] = field(default_factory=list)
    mask: str = ""


def detect(where: str) -> bool:
    return where.lower().endswith(SUFFIXES) and (is_remote(where) or os.path.isfile(where))


def load(request: DatasetRequest) -> Dataset:
    """The images that the list names, in its order; paths are relative to the folder it lies in."""
    if is_remote(request.where):
        address, _, name = request.where.rpartition("/")
        remote = RemoteFolder.at(address)
        lines = _lines(remote.text(name), request.where)
        synsets = {} if request.synsets is None else read_synsets(request.synsets)
        entries = [_remote_entry(remote, name, line, synsets) for name, line in lines.items()]
    else:
        root = request.path.parent
        lines = _lines(read_text(request.path), request.where)
        synsets = find_synsets(request.synsets, root)
        entries = [_disk_entry(root, name, line, synsets) for name, line in lines.items()]
        _require_below(root, lines, request.where)
    notes = unknown_note([line.label for line in lines.values()], synsets)
    return Dataset(LAYOUT.name, request.where, tuple(entries), notes)


def _disk_entry(root: Path, name: str, line: Line, synsets: dict[str, int]) -> Entry:
    truth = [root / line.mask] if line.mask else []
    entry = file_entry(root / name, root, index_of(line.label, synsets), truth)
    return _with_truth(replace(entry, id=name), line, lambda: open_picture(root / line.mask))


def _remote_entry(remote: RemoteFolder, name: str, line: Line, synsets: dict[str, int]) -> Entry:
    truth = [line.mask] if line.mask else []
    entry = remote.entry(name, index_of(line.label, synsets), *truth)
    return _with_truth(entry, line, lambda: remote.picture(line.mask))


def _with_truth(entry: Entry, line: Line, mask: Callable[[], Picture]) -> Entry:
    """The entry with the boxes and the outline of its line; boxes are part of its digest."""
    boxes = tuple(line.boxes)
    found = replace(entry, outline=partial(_outline, mask)) if line.mask else entry
    if not boxes:
        return found
    return replace(found, boxes=lambda _size: boxes, digest=lambda: f"{entry.digest()}:{boxes}")


def _outline(mask: Callable[[], Picture]) -> Array:
    """(H, W) booleans: the light pixels of the mask."""
    return np.asarray(mask().image.convert("L")) >= LIGHT


def _lines(text: str, name: str) -> dict[str, Line]:
    """What the list says, by path."""
    found: dict[str, Line] = {}
    for number, row in _rows(text, name):
        path = _path(next((row[key] for key in NAMES if row.get(key)), ""), f"{name}: line {number}")
        line = found.setdefault(path, Line(row.get("label", "")))
        if line.label != row.get("label", "") or (line.mask and line.mask != row.get("mask", "")):
            raise InputError(f"{name}: line {number} gives {path!r:.200} another label or mask than a line before")
        line.boxes += _boxes(row.get("boxes", ""), f"{name}: line {number}")
        line.mask = row.get("mask", "") and _path(row["mask"], f"{name}: line {number}")
    return found


def _rows(text: str, name: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Lines by number, with their columns by name."""
    if not name.lower().endswith(".csv"):
        for number, line in enumerate(text.split("\n"), 1):
            path, _, label = line.strip().partition("\t")
            if path and not path.startswith("#"):
                yield number, {"image": path.strip(), "label": label.strip()}
        return
    reader = csv.DictReader(io.StringIO(text))
    try:
        if not set(NAMES) & set(reader.fieldnames or ()):
            raise InputError(f"{name}: the first line must name the column image, got {reader.fieldnames!r:.200}")
        for row in reader:
            yield reader.line_num, {str(key): (value or "").strip() for key, value in row.items() if key is not None}
    except csv.Error as error:
        raise InputError(f"{name}: line {reader.line_num} is not CSV ({error})") from None


def _path(text: str, where: str) -> str:
    """A path below the folder of the list."""
    if not text or "\0" in text or PurePath(text).is_absolute() or ".." in PurePath(text).parts:
        raise InputError(f"{where}: {text!r:.200} is no path below the folder of the list")
    return PurePath(text).as_posix()


def _boxes(text: str, where: str) -> list[Box]:
    """Boxes from "x0 y0 x1 y1; x0 y0 x1 y1", in pixels of the upright image."""
    found = []
    for part in filter(None, (each.strip() for each in text.split(";"))):
        try:
            sides = [float(number) for number in re.split(r"[\s,]+", part)]
        except ValueError:
            sides = []
        if len(sides) != 4 or not all(-LARGEST < side < LARGEST for side in sides):
            raise InputError(f"{where}: {part!r:.80} is no box; write left top right bottom in pixels, ; between boxes")
        found.append((sides[0], sides[1], sides[2], sides[3]))
    return found


def _require_below(root: Path, lines: Mapping[str, Line], name: str) -> None:
    """Raise InputError if a link on the way leads out of the folder of the list."""
    real = Path(os.path.realpath(root))
    for path in (each for image, line in lines.items() for each in (image, line.mask) if each):
        if not Path(os.path.realpath(root / path)).is_relative_to(real):
            raise InputError(f"{name}: {path!r:.200} lies outside its folder; name files below it")


LAYOUT = Layout(
    "list", "a CSV with columns image, label, boxes, mask, or a path a line", "label, boxes, mask", detect, load
)
