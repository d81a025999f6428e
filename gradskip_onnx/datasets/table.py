"""The table of layouts, and the dataset at a path read by the first that recognises it."""

from __future__ import annotations

from pathlib import Path

from gradskip_onnx.errors import InputError

from . import ade20k, folder, imagenet, medmnist, planted, samples
from .entry import Dataset
from .layout import DatasetRequest, Layout

# In the order in which they are tried: the more a layout asks of a folder, the earlier; any folder is a `folder`.
_ROWS = (planted.LAYOUT, medmnist.LAYOUT, ade20k.LAYOUT, imagenet.LAYOUT, samples.LAYOUT, folder.LAYOUT)
LAYOUTS: dict[str, Layout] = {row.name: row for row in _ROWS}


def load(where: str, layout: str | None = None, *, split: str | None = None, synsets: Path | None = None) -> Dataset:
    """The dataset at a path, or `planted:COUNT`; nothing but names is read yet."""
    if layout is not None and layout not in LAYOUTS:
        raise InputError(f"unknown layout {layout!r}; known: {', '.join(LAYOUTS)}")
    if not planted.detect(where) and not Path(where).exists():
        raise InputError(f"data {where}: no such file or folder")
    rows = [LAYOUTS[layout]] if layout else [row for row in LAYOUTS.values() if row.detect(where)]
    if not rows or not rows[0].detect(where):
        wanted = f"not of layout {layout}" if layout else "of no layout that is known"
        raise InputError(f"data {where}: {wanted}; known: {', '.join(LAYOUTS)}")
    found = rows[0].load(DatasetRequest(where, split, synsets))
    if not found.entries:
        raise InputError(f"data {where}: no images in it (layout {found.layout})")
    return found
