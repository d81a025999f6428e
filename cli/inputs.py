"""Reads arguments of `explain`: images by name, folder or pattern; classes; regions."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.read import SUFFIXES, open_picture
from gradskip_onnx.images.regions import Region
from gradskip_onnx.pipeline.jobs import Job, plan_jobs
from gradskip_onnx.pipeline.question import Target


def read_jobs(images: Sequence[str]) -> tuple[Job, ...]:
    """One job per image, or the job of the demo; no file is opened."""
    if images:
        return plan_jobs(expand(images))
    from gradskip_onnx.demo import demo_image

    return (Job(demo_image(), "demo"),)


def expand(names: Iterable[str]) -> tuple[Path, ...]:
    """The image paths behind names, folders and patterns, in order; folders and patterns are sorted, no file twice."""
    found: dict[str, Path] = {}
    for name in names:
        for path in _matches(name):
            found.setdefault(os.path.realpath(path), path)
    return tuple(found.values())


def _matches(name: str) -> Iterator[Path]:
    path = Path(name)
    if name in ("", "."):  # of a variable that is not set, or a slip: every image of the working folder
        raise InputError(f"image {name!r}: name a file, a folder or a pattern; ./ means the whole working folder")
    if os.path.isdir(path):
        try:
            files = sorted(entry for entry in path.iterdir() if entry.suffix.lower() in SUFFIXES and entry.is_file())
        except OSError as error:
            raise InputError(f"{name}: cannot be listed ({error.strerror or error})") from None
        if not files:
            raise InputError(f"{name}: no images in this folder; use a pattern such as '{path}/**/*.png' to go deeper")
        yield from files
    elif not os.path.lexists(path) and glob.has_magic(name):
        hits = sorted(Path(hit) for hit in glob.glob(name, recursive=True) if os.path.isfile(hit))
        if not hits:
            raise InputError(f"{name}: no file matches this pattern")
        yield from hits
    else:
        yield path  # a missing file is reported when it is opened, like any other image that fails


def read_target(text: str | None) -> Target:
    """A class index, a label, or None for the predicted class; the caller handles `top5`."""
    if text is None or text == "predicted":
        return None
    return int(text) if re.fullmatch(r"-?\d{1,9}", text) else text


def read_region(text: str | None) -> Region | None:
    """A point from `x,y` in image pixels, or a mask (H, W) from an image file, whose light pixels are the region."""
    if text is None:
        return None
    point = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*,\s*(\d+(?:\.\d+)?)\s*", text)
    if point is not None:
        return float(point[1]), float(point[2])
    mask = np.asarray(open_picture(text).image.convert("L")) >= 128
    if not mask.any():
        raise InputError(f"--region {text}: the mask is empty; light pixels (128 and above) are the region")
    return mask.astype(np.float32)
