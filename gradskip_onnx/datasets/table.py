"""The table of layouts, and `load`, which reads a dataset with the first layout that recognises it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gradskip_onnx.addresses import is_remote, on_disk
from gradskip_onnx.errors import InputError
from gradskip_onnx.imports.plugins import PluginRows
from gradskip_onnx.untrusted_files import shortened

from . import address, ade20k, folder, imagenet, listed, medmnist, planted, samples
from .entry import Dataset, DatasetSource
from .layout import DatasetRequest, Layout
from .selection import Selection

# Tried in this order, the most specific first; `folder` recognises any folder.
_ROWS = (
    planted.LAYOUT, listed.LAYOUT, address.LAYOUT, medmnist.LAYOUT, ade20k.LAYOUT, imagenet.LAYOUT, samples.LAYOUT,
    folder.LAYOUT,
)  # fmt: skip
LAYOUTS: dict[str, Layout] = {row.name: row for row in _ROWS}
PLUGINS: PluginRows[Layout] = PluginRows("layout", "gradskip_onnx.datasets", Layout)


def load(where: str, layout: str | None = None, *, split: str | None = None, synsets: Path | None = None) -> Dataset:
    """The dataset at a path or an address, or `planted:COUNT`; images are read later, on demand."""
    where = on_disk(where)
    named = None if layout is None else PLUGINS.find(layout, LAYOUTS)
    if not where:  # Path("") is the working folder
        raise InputError("data '': name a file, a folder or planted:COUNT")
    if not (planted.detect(where) or is_remote(where) or os.path.exists(where) or (named and _detects(named, where))):
        raise InputError(f"data {shortened(where)}: no such file or folder")
    row = next((row for row in ((named,) if named else _in_order()) if _detects(row, where)), None)
    if row is None:
        reason = f"not of layout {layout}" if layout else "of no layout that is known"
        raise InputError(f"data {where}: {reason}; known: {', '.join(LAYOUTS)}")
    with PLUGINS.blame(row.name, LAYOUTS):
        found = row.load(DatasetRequest(where, split, synsets))
    if not found.entries:
        raise InputError(f"data {where}: no images in it (layout {found.layout})")
    named_synsets = None if synsets is None else os.fspath(synsets)
    return replace(found, source=DatasetSource(where, found.layout, split, named_synsets))


def load_source(source: DatasetSource) -> Dataset:
    """The dataset that came from a source, with the same entries in the same order."""
    synsets = None if source.synsets is None else Path(source.synsets)
    found = load(source.where, source.layout, split=source.split, synsets=synsets)
    return Selection(source.indices, source.part, source.limit).of(found)


def _in_order() -> Iterator[Layout]:
    """Our layouts, and before `folder`, which recognises any folder, those of installed packages."""
    yield from (row for row in LAYOUTS.values() if row is not folder.LAYOUT)
    yield from (row for name, row in PLUGINS.every(LAYOUTS).items() if name not in LAYOUTS)
    yield folder.LAYOUT


def _detects(row: Layout, where: str) -> bool:
    with PLUGINS.blame(row.name, LAYOUTS):
        return row.detect(where)
