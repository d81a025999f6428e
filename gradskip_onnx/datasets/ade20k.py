"""ADE20K in the layout of its scene parsing challenge: images/SPLIT/*.jpg and annotations/SPLIT/*.png, class masks."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.read import BROKEN, check_size, pillow_bound
from gradskip_onnx.limits import IMAGE_BYTES
from gradskip_onnx.types import Array
from gradskip_onnx.untrusted_files import read_bounded, shortened

from .entry import UNLABELLED, Dataset
from .files import file_entry, images_under
from .layout import DatasetRequest, Layout

SPLIT = "validation"
MODES = ("L", "P", "1", "I;16", "I")  # one number per pixel; a coloured image is a drawing of a mask, not a mask


def detect(where: str) -> bool:
    return all((Path(where) / name).is_dir() for name in ("images", "annotations"))


def load(request: DatasetRequest) -> Dataset:
    """The images of a split; without split folders, those directly in images/ and annotations/."""
    root, split = request.path, request.split or SPLIT
    pictures, masks = root / "images", root / "annotations"
    if request.split or os.path.isdir(pictures / split):
        pictures, masks = pictures / split, masks / split
    if not os.path.isdir(pictures):
        raise InputError(f"{shortened(pictures)}: no such folder; see --split")
    entries = []
    for path in images_under(pictures):
        mask = (masks / path.relative_to(pictures)).with_suffix(".png")
        entry = file_entry(path, root / "images", None, (mask,))
        entries.append(replace(entry, areas=_areas(mask)) if mask.is_file() else entry)
    without = sum(entry.areas is None for entry in entries)
    warnings = (f"{without} of {len(entries)} images have no mask in {masks}",) if without else ()
    return Dataset(LAYOUT.name, str(root), tuple(entries), warnings)


def _areas(path: Path) -> Callable[[], Array]:
    return lambda: read_areas(path)


def read_areas(path: Path) -> Array:
    """(H, W) class indices; in the file 0 means unlabelled and k means class k - 1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns about harmless metadata; the size is checked here
        try:
            data = io.BytesIO(read_bounded(path, IMAGE_BYTES))
            with pillow_bound(), Image.open(data, formats=("PNG",)) as image:
                check_size(image, str(path))
                if image.mode not in MODES:
                    raise InputError(f"{path}: a mask has one number a pixel, this image has mode {image.mode}")
                values = np.asarray(image).astype(np.int64)
        except (UnidentifiedImageError, Image.DecompressionBombError, *BROKEN) as error:
            raise InputError(f"{path}: cannot be read as a PNG mask ({str(error)[:120]})") from None
    return np.where(values == 0, UNLABELLED, values - 1)


LAYOUT = Layout("ade20k", "images/ and annotations/ with PNG masks", "class of every pixel", detect, load)
