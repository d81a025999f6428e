"""The table of layouts: how a dataset is recognised, and who reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gradskip_onnx.errors import InputError

from . import ade20k, folder, imagenet, medmnist, planted, samples
from .entry import Dataset
from .request import DatasetRequest


@dataclass(frozen=True, slots=True)
class Layout:
    """One row; the first that recognises a dataset reads it."""

    name: str
    summary: str
    truth: str
    detect: Callable[[str], bool]
    load: Callable[[DatasetRequest], Dataset]


_ROWS = (
    Layout("planted", "planted:COUNT: scenes drawn on the fly", "label, mask", planted.detect, planted.load),
    Layout("medmnist", "a .npz of MedMNIST, such as bloodmnist.npz", "label", medmnist.detect, medmnist.load),
    Layout("ade20k", "images/ and annotations/ with PNG masks", "a class a pixel", ade20k.detect, ade20k.load),
    Layout("imagenet", "images with the XML boxes of ILSVRC", "label, boxes", imagenet.detect, imagenet.load),
    Layout("samples", "files named INDEX_WNID_name or WNID_name", "label", samples.detect, samples.load),
    Layout("folder", "images with labels.csv, labels.json or a folder a class", "label", folder.detect, folder.load),
)
LAYOUTS: dict[str, Layout] = {row.name: row for row in _ROWS}


def load(where: str, layout: str | None = None, *, split: str | None = None, synsets: Path | None = None) -> Dataset:
    """The dataset at a path, or `planted:COUNT`; nothing but names is read yet."""
    if layout is not None and layout not in LAYOUTS:
        raise InputError(f"unknown layout {layout!r}; known: {', '.join(LAYOUTS)}")
    if not planted.detect(where) and not Path(where).exists():
        raise InputError(f"data {where}: no such file or folder")
    rows = [LAYOUTS[layout]] if layout else [row for row in _ROWS if row.detect(where)]
    if not rows or not rows[0].detect(where):
        wanted = f"not of layout {layout}" if layout else "of no layout that is known"
        raise InputError(f"data {where}: {wanted}; known: {', '.join(LAYOUTS)}")
    found = rows[0].load(DatasetRequest(where, split, synsets))
    if not found.entries:
        raise InputError(f"data {where}: no images in it (layout {found.layout})")
    return found
