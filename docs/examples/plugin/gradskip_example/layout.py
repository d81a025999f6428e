"""The layout `index-file`: a folder with index.txt, a line `FILE CLASS` for each image."""

from __future__ import annotations

from pathlib import Path

from gradskip_onnx.plugins import Dataset, DatasetRequest, InputError, Layout, file_entry

INDEX = "index.txt"


def detect(where: str) -> bool:
    return (Path(where) / INDEX).is_file()


def load(request: DatasetRequest) -> Dataset:
    """The images in the order of the file; they are read later, when they are needed."""
    entries = []
    for line in (request.path / INDEX).read_text(encoding="utf-8").splitlines():
        name, _, label = line.rpartition(" ")
        if not name or not label.isdecimal():
            raise InputError(f"{request.path / INDEX}: {line!r} is not FILE CLASS")
        entries.append(file_entry(request.path / name, request.path, int(label)))
    return Dataset("index-file", str(request.path), tuple(entries))


INDEX_FILE = Layout("index-file", "images named by index.txt, FILE CLASS a line", "label", detect, load)
