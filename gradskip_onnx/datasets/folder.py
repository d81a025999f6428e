"""A folder of images; labels from labels.csv or labels.json, or from the names of its sub-folders."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.labels import parse_json, read_text

from .entry import Dataset, Entry
from .files import file_entry, images_under
from .layout import DatasetRequest, Layout
from .synsets import find_synsets, index_of, unknown_note

TABLES = ("labels.csv", "labels.json")


def detect(where: str) -> bool:
    return Path(where).is_dir()


def load(request: DatasetRequest) -> Dataset:
    """Every image in the folder, or those that the table of labels names."""
    root = request.path
    table = next((root / name for name in TABLES if (root / name).is_file()), None)
    names = _by_folder(root) if table is None else _by_table(table)
    folders = [path.name for path in root.iterdir() if path.is_dir()]
    synsets = find_synsets(request.synsets, root, folders)
    entries = tuple(_entry(path, root, name, synsets) for path, name in names.items())
    return Dataset(LAYOUT.name, str(root), entries, unknown_note(list(names.values()), synsets))


def _entry(path: Path, root: Path, name: str, synsets: dict[str, int]) -> Entry:
    return file_entry(path, root, index_of(name, synsets))


def _by_folder(root: Path) -> dict[Path, str]:
    """Each image with the top-level sub-folder it lies in; an empty name for images directly in the folder."""
    parts = {path: path.relative_to(root).parts for path in images_under(root)}
    return {path: names[0] if len(names) > 1 else "" for path, names in parts.items()}


def _by_table(table: Path) -> dict[Path, str]:
    """The images and labels in a table; raises InputError for a file outside its folder."""
    rows = read_table(read_text(table), str(table))
    root = Path(os.path.realpath(table.parent))
    names: dict[Path, str] = {}
    for file, label in rows.items():
        path = table.parent / file
        if "\0" in file or not Path(os.path.realpath(path)).is_relative_to(root):
            raise InputError(f"{table}: {file!r} lies outside its folder; name files below it")
        names[path] = label
    return names


def read_table(text: str, name: str) -> dict[str, str]:
    """The label of each file in the text of a table; errors call it `name`, which says whether it is CSV or JSON."""
    return _json_rows(text, name) if name.endswith(".json") else _csv_rows(text, name)


def _csv_rows(text: str, table: str) -> dict[str, str]:
    reader = csv.DictReader(io.StringIO(text))
    try:
        if not {"file", "label"} <= set(reader.fieldnames or ()):
            raise InputError(
                f"{table}: the first line must name the columns file and label, got {reader.fieldnames!r:.200}"
            )
        return {row["file"]: row["label"] or "" for row in reader if row["file"]}
    except csv.Error as error:
        raise InputError(f"{table}: line {reader.line_num} is not CSV ({error})") from None


def _json_rows(text: str, table: str) -> dict[str, str]:
    document = parse_json(text, table)
    kinds = (str, int, type(None))
    if not isinstance(document, Mapping) or not all(isinstance(label, kinds) for label in document.values()):
        raise InputError(f'{table}: expected an object of file: label, such as {{"cat.png": 281}}')
    return {str(file): "" if label is None else str(label) for file, label in document.items()}


LAYOUT = Layout("folder", "images with labels.csv, labels.json or one folder per class", "label", detect, load)
