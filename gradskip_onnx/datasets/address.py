"""A folder of images at an address of fsspec; labels from labels.csv or labels.json, or from its sub-folders."""

from __future__ import annotations

from gradskip_onnx.addresses import is_remote
from gradskip_onnx.errors import InputError

from .entry import Dataset
from .folder import TABLES, read_table
from .layout import DatasetRequest, Layout
from .remote import RemoteFolder
from .synsets import index_of, read_synsets, unknown_note


def detect(where: str) -> bool:
    return is_remote(where)


def load(request: DatasetRequest) -> Dataset:
    """Every image of the folder, or those that the table of labels names."""
    folder = RemoteFolder.at(request.where)
    here = folder.names()
    table = next((name for name in TABLES if name in here), None)
    names = (
        {name: name.split("/")[0] if "/" in name else "" for name in folder.images()}
        if table is None
        else read_table(folder.text(table), f"{request.where}/{table}")
    )
    outside = next((name for name in names if ".." in name.split("/") or name.startswith("/") or "\0" in name), None)
    if outside is not None:
        raise InputError(f"{request.where}/{table}: {outside!r} lies outside its folder; name files below it")
    synsets = {} if request.synsets is None else read_synsets(request.synsets)
    entries = tuple(folder.entry(name, index_of(label, synsets)) for name, label in names.items())
    return Dataset(LAYOUT.name, request.where, entries, unknown_note(list(names.values()), synsets))


LAYOUT = Layout("address", "a folder of images at an address of fsspec", "label", detect, load)
