"""The table of layouts, and `load`, which reads a dataset with the first layout that recognises it."""

from __future__ import annotations

import os
from pathlib import Path

from gradskip_onnx.errors import InputError
from gradskip_onnx.untrusted_files import shortened

from . import ade20k, folder, imagenet, medmnist, planted, samples
from .entry import Dataset
from .layout import DatasetRequest, Layout

# Tried in this order, the most specific first; `folder` recognises any folder.
_ROWS = (planted.LAYOUT, medmnist.LAYOUT, ade20k.LAYOUT, imagenet.LAYOUT, samples.LAYOUT, folder.LAYOUT)
LAYOUTS: dict[str, Layout] = {row.name: row for row in _ROWS}


def load(where: str, layout: str | None = None, *, split: str | None = None, synsets: Path | None = None) -> Dataset:
    """The dataset at a path, or `planted:COUNT`; images are read later, on demand."""
    if layout is not None and layout not in LAYOUTS:
        raise InputError(f"unknown layout {layout!r}; known: {', '.join(LAYOUTS)}")
    if not where:  # Path("") is the working folder
        raise InputError("data '': name a file, a folder or planted:COUNT")
    if not planted.detect(where) and not os.path.exists(where):
        raise InputError(f"data {shortened(where)}: no such file or folder")
    rows = [LAYOUTS[layout]] if layout else [row for row in LAYOUTS.values() if row.detect(where)]
    if not rows or not rows[0].detect(where):
        reason = f"not of layout {layout}" if layout else "of no layout that is known"
        raise InputError(f"data {where}: {reason}; known: {', '.join(LAYOUTS)}")
    found = rows[0].load(DatasetRequest(where, split, synsets))
    if not found.entries:
        raise InputError(f"data {where}: no images in it (layout {found.layout})")
    return found
