"""Turns what callers pass as images (paths, bytes, PIL images, arrays; one or many) into preprocessed inputs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from PIL import Image

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.preprocess import Geometry, Preprocess, prepare
from gradskip_onnx.images.read import Picture, decode, open_picture, rgb_of_pixels, upright_rgb
from gradskip_onnx.types import Array, ImageDims

Encoded = bytes | bytearray | memoryview  # the content of an image file
MOST_AT_ONCE = 8  # preprocessed images, or classes of one image, in one run: memory does not grow with their number

ImageLike = str | os.PathLike[str] | Encoded | Image.Image | Picture
PICTURES = (str, os.PathLike, bytes, bytearray, memoryview, Image.Image, Picture)  # ImageLike, for isinstance


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """The model input made from an image, and the part of the image it covers."""

    values: Array  # (channels, height, width), normalised
    geometry: Geometry


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """The images of one call."""

    items: Iterator[Any]
    count: int | None  # None for an iterator, whose length is unknown
    single: bool = False  # one image, not a list of one
    batch_size: int = 1  # images in one run, unless the caller sets it


def as_images(images: Any, dims: ImageDims) -> Images:
    """Tell one image from many; an array with four axes is a preprocessed batch (B, channels, H, W)."""
    if isinstance(images, PICTURES):
        return Images(iter([images]), 1, single=True)
    if isinstance(images, list | tuple):
        return Images(iter(images), len(images))
    if hasattr(images, "__array__"):
        array = _array(images, "image")
        if array.ndim != 4:
            return Images(iter([array]), 1, single=True)
        if array.dtype.kind != "f" or array.shape[1:] != dims:
            raise InputError(f"a batch of {_shape_text(array)} cannot be used; {_accepted(dims)}")
        if not len(array):
            raise InputError("the array holds no image")
        return Images(iter(array), len(array), batch_size=MOST_AT_ONCE)
    if isinstance(images, Iterable):
        return Images(iter(images), None)
    raise InputError(f"{type(images).__name__} is no image; {_accepted(dims)}")


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
    if not isinstance(image, PICTURES):
        if not hasattr(image, "__array__"):
            raise InputError(f"{name}: {type(image).__name__} is no image; {_accepted(dims)}")
        image = _array(image, name)
        if image.dtype.kind == "f" and image.shape == dims:
            return _preprocessed(image, name)
        if image.dtype != np.uint8 or not (image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 3)):
            raise InputError(f"{name}: {_shape_text(image)} cannot be used; {_accepted(dims)}")
    if dims.channels != 3:
        raise InputError(f"{name}: the model takes {dims.channels} channels, an image has 3; {_accepted(dims)}")
    return Prepared(*prepare(_upright(image, name), preprocess))


def _preprocessed(values: Array, name: str) -> Prepared:
    """A preprocessed array (channels, H, W) as it is; the image is its own H x W frame."""
    if not np.isfinite(values).all():
        raise InputError(f"{name}: the array holds NaN or infinity")
    height, width = values.shape[1:]
    return Prepared(values, Geometry((height, width), (0.0, 0.0, float(width), float(height))))


def _upright(image: ImageLike | Array, name: str) -> Image.Image:
    """An image of any kind as upright RGB."""
    if isinstance(image, Picture):
        return image.image
    if isinstance(image, Image.Image):
        return upright_rgb(image, name)
    if isinstance(image, np.ndarray):
        return rgb_of_pixels(image, name)
    return decode(bytes(image), name) if isinstance(image, Encoded) else open_picture(os.fspath(image)).image


def _array(image: Any, name: str) -> Array:
    """The NumPy array of an object that has `__array__`."""
    try:
        return np.asarray(image)
    except (TypeError, ValueError, RuntimeError) as error:  # for example, a tensor on another device
        raise InputError(f"{name}: {type(image).__name__} cannot become a NumPy array ({error})") from None


def _shape_text(array: Array) -> str:
    return f"an array of shape {array.shape} and type {array.dtype}"


def _accepted(dims: ImageDims) -> str:
    """The accepted kinds of image, for error messages."""
    shape = ", ".join(map(str, dims))
    pixels = "pixels (H, W, 3) or (H, W) of type uint8, " if dims.channels == 3 else ""
    files = "a path, the bytes of a file, a PIL image, " if dims.channels == 3 else ""
    return f"give {files}{pixels}or preprocessed floats ({shape}), for a batch (B, {shape})"
