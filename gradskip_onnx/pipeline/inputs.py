"""Turns what callers pass as images (paths, files, bytes, PIL images, arrays; one or many) into preprocessed inputs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any, BinaryIO

import numpy as np
from PIL import Image

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.original import Original
from gradskip_onnx.images.preprocess import Geometry, Preprocess, prepare
from gradskip_onnx.images.read import Picture, decode_picture, open_picture, read_stream, rgb_of_pixels, upright_rgb
from gradskip_onnx.types import Array, ImageDims

from .arrays import accepted, as_array, batch_of, check_input, is_array, is_input, picture_of_input, pixels_of

Encoded = bytes | bytearray | memoryview  # the content of an image file
MOST_AT_ONCE = 8  # preprocessed images, or classes of one image, in one run: memory does not grow with their number

ImageLike = str | os.PathLike[str] | Encoded | BinaryIO | Image.Image | Picture
PICTURES = (str, os.PathLike, bytes, bytearray, memoryview, Image.Image, Picture)  # ImageLike, but for open files


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """The model input made from an image, and the part of the image it covers."""

    values: Array  # (channels, height, width), normalised
    geometry: Geometry
    original: Original


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """The images of one call."""

    items: Iterator[Any]
    count: int | None  # None for an iterator, whose length is unknown
    single: bool = False  # one image, not a list of one
    batch_size: int = 1  # images in one run, unless the caller sets it


def as_images(images: Any, dims: ImageDims) -> Images:
    """Tell one image from many; an array with four axes is a batch, of inputs (B, channels, H, W) or of pixels."""
    if _is_picture(images):
        return Images(iter([images]), 1, single=True)
    if isinstance(images, list | tuple):
        return Images(iter(images), len(images))
    if is_array(images):
        array = as_array(images, "image")
        if array.ndim != 4:
            return Images(iter([array]), 1, single=True)
        return Images(iter(array), len(array), batch_size=MOST_AT_ONCE if batch_of(array, dims) else 1)
    if isinstance(images, Iterable):
        return Images(iter(images), None)
    raise InputError(f"{type(images).__name__} is no image; {accepted(dims)}")


def _is_picture(image: object) -> bool:
    """Whether an object holds one encoded or decoded image; open files have lines, and are no lists of images."""
    return isinstance(image, PICTURES) or callable(getattr(image, "read", None))


def is_several(target: Any) -> bool:
    """Whether `target` holds several targets; a string is one target, a class name."""
    return isinstance(target, Iterable) and not isinstance(target, str)


def with_classes(images: Iterator[Any], classes: Iterator[int | None]) -> Iterator[tuple[str, Any, int | None]]:
    """Yield (name for errors, image, class) for each image; raises InputError unless there is one class per image."""
    count, end = 0, object()
    for count, image in enumerate(images, 1):
        index: Any = next(classes, end)
        if index is end:
            raise InputError(f"{count - 1} targets for more images; give one for all or one for each")
        yield f"image {count}", image, index
    if not isinstance(classes, repeat) and next(classes, end) is not end:
        raise InputError(f"more than {count} targets for {count} images; give one for all or one for each")


def prepare_image(image: Any, preprocess: Preprocess, dims: ImageDims, name: str = "image") -> Prepared:
    """Preprocess an image of any accepted kind; error messages call it `name` unless it has a path."""
    if not _is_picture(image):
        if not is_array(image):
            raise InputError(f"{name}: {type(image).__name__} is no image; {accepted(dims)}")
        image = as_array(image, name)
        if is_input(image, dims):
            return _preprocessed(image, preprocess, name)
        image = pixels_of(image, name, dims)
    if dims.channels != 3:
        raise InputError(f"{name}: the model takes {dims.channels} channels, an image has 3; {accepted(dims)}")
    picture = _picture(image, name)
    return Prepared(*prepare(picture.image, preprocess), Original.of(picture))


def _preprocessed(values: Array, preprocess: Preprocess, name: str) -> Prepared:
    """A preprocessed array (channels, H, W) as it is; the image is its own H x W frame."""
    check_input(values, preprocess, name)
    height, width = values.shape[1:]
    geometry = Geometry((height, width), (0.0, 0.0, float(width), float(height)))
    return Prepared(values, geometry, Original(name, None, picture_of_input(values, preprocess)))


def _picture(image: ImageLike | Array, name: str) -> Picture:
    """An image of any kind as upright RGB, with the bytes of its file, if it came as one."""
    if isinstance(image, Picture):
        return image
    if isinstance(image, Image.Image):
        return Picture(str(getattr(image, "filename", "") or name), upright_rgb(image, name))
    if isinstance(image, np.ndarray):
        return Picture(name, rgb_of_pixels(image, name))
    if isinstance(image, Encoded):
        return decode_picture(bytes(image), name)
    if isinstance(image, str | os.PathLike):
        return open_picture(os.fspath(image))
    return read_stream(image, name)
