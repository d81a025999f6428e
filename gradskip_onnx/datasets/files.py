"""Lists images in folders, in the same order on every machine, and reads and hashes them on demand."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from PIL import Image

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.read import SUFFIXES, open_picture
from gradskip_onnx.limits import IMAGE_BYTES
from gradskip_onnx.untrusted_files import open_regular, read_bounded

from .entry import Entry

CHUNK = 1 << 20


def images_under(folder: Path, inside: tuple[str, ...] = ()) -> Iterator[Path]:
    """Every image in a folder and below it, sorted by path; hidden files and folders are left out.

    `inside` are the folders that are being listed: a link to one of them would lead round in circles.
    """
    here = os.path.realpath(folder)
    if here in inside:
        return
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: cannot be listed ({error.strerror or error})") from None
    for path in entries:
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from images_under(path, (*inside, here))
        elif path.suffix.lower() in SUFFIXES:
            yield path


def images_here(folder: Path) -> list[Path]:
    """The images directly in a folder, sorted by path."""
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and p.is_file() and p.name[0] != ".")


def file_entry(path: Path, root: Path, label: int | str | None = None, truth: Iterable[Path] = ()) -> Entry:
    """An entry whose image is a file; its id is the path below `root`, `truth` are the files with its ground truth."""
    digest = partial(hash_files, (path, *truth))
    return Entry(
        path.relative_to(root).as_posix(), _reader(path), digest, label,
        picture=partial(open_picture, path), sha256=partial(hash_image, path),
    )  # fmt: skip


def _reader(path: Path) -> Callable[[], Image.Image]:
    return lambda: open_picture(path).image


def hash_image(path: Path) -> str:
    """SHA-256 of the file of an image, whether it is one or not; raises InputError beyond the limit of images."""
    return hashlib.sha256(read_bounded(path, IMAGE_BYTES)).hexdigest()


def hash_files(paths: Iterable[Path]) -> str:
    """SHA-256 over the hashes of the files, in order; a file that cannot be read is skipped."""
    total = hashlib.sha256()
    for path in paths:
        part = hashlib.sha256()
        try:
            with open_regular(path) as stream:
                while data := stream.read(CHUNK):
                    part.update(data)
        except OSError:
            continue  # reported when the image is opened
        total.update(part.digest())
    return total.hexdigest()
