"""MedMNIST, such as BloodMNIST: one .npz with the images and labels of each split."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from gradskip_onnx.errors import InputError
from gradskip_onnx.limits import ARRAY_BYTES
from gradskip_onnx.types import Array
from gradskip_onnx.untrusted_files import open_regular

from .entry import Dataset, Entry
from .layout import DatasetRequest, Layout

SPLIT = "test"

# Everything that broken, encrypted or lying archives are known to raise.
BROKEN = (OSError, ValueError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error)


def detect(where: str) -> bool:
    return Path(where).suffix.lower() == ".npz"


def load(request: DatasetRequest) -> Dataset:
    """The images of a split; the arrays stay in memory, because a compressed file cannot be read in part."""
    path, split = request.path, request.split or SPLIT
    images, labels = _arrays(path, (f"{split}_images", f"{split}_labels"))
    shape = images.shape[1:] if images.ndim in (3, 4) else ()
    if images.dtype != np.uint8 or len(shape) not in (2, 3) or shape[2:] not in ((), (3,)) or 0 in shape:
        raise InputError(f"{path}: {split}_images is {images.dtype} {images.shape}; grey or RGB bytes are expected")
    if not np.issubdtype(labels.dtype, np.integer) or labels.size != len(images):
        raise InputError(
            f"{path}: {split}_labels is {labels.dtype} {labels.shape} for {len(images)} images; one class an image is "
            "expected (sets with several labels an image cannot be used)"
        )
    entries = [_entry(split, at, images, int(label)) for at, label in enumerate(labels.reshape(-1))]
    return Dataset(LAYOUT.name, str(path), tuple(entries))


def _entry(split: str, at: int, images: Array, label: int) -> Entry:
    return Entry(
        id=f"{split}/{at}",
        read=lambda: Image.fromarray(images[at]).convert("RGB"),
        digest=lambda: hashlib.sha256(images[at].tobytes() + str(label).encode()).hexdigest(),
        label=label,
    )


def _arrays(path: Path, names: tuple[str, ...]) -> list[Array]:
    """Arrays of a .npz; NumPy is told to refuse pickled objects, which could run code."""
    try:
        with open_regular(path) as stream, zipfile.ZipFile(stream) as archive:
            large = [
                info
                for info in archive.infolist()
                if info.filename[:-4] in names and info.file_size > ARRAY_BYTES.amount
            ]
        if large:
            raise InputError(f"{path}: {large[0].filename} has {large[0].file_size} bytes, limit {ARRAY_BYTES.amount}")
        with open_regular(path) as stream, np.load(stream, allow_pickle=False) as archive:
            missing = [name for name in names if name not in archive.files]
            if missing:
                raise InputError(
                    f"{path}: no array {missing[0]!r} in it (found {', '.join(archive.files)}); see --split"
                )
            return [archive[name] for name in names]
    except BROKEN as error:
        raise InputError(f"{path}: not a readable .npz ({str(error)[:120]})") from None


LAYOUT = Layout("medmnist", "a .npz of MedMNIST, such as bloodmnist.npz", "label", detect, load)
