"""What people have as images, one or many, and how it becomes the input of a model."""

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
MOST_AT_ONCE = 8  # preprocessed images, or classes of one image, in one run: memory stays flat however many are given

ImageLike = str | os.PathLike[str] | Encoded | Image.Image | Picture
PICTURES = (str, os.PathLike, bytes, bytearray, memoryview, Image.Image, Picture)  # the same, to ask at run time


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """An image as the model takes it, and where that lies in the original."""

    values: Array  # (channels, height, width), normalised
    geometry: Geometry


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """What a call was given."""

    each: Iterator[Any]
    count: int | None  # None: nobody knows, it is an iterator
    single: bool = False  # an image by itself, not a list of one
    at_once: int = 1  # in one run, unless the user says


def sort_out(given: Any, dims: ImageDims) -> Images:
    """One image or many; an array with four axes is a batch that is preprocessed already."""
    if isinstance(given, PICTURES):
        return Images(iter([given]), 1, single=True)
    if isinstance(given, list | tuple):
        return Images(iter(given), len(given))
    if hasattr(given, "__array__"):
        array = _array(given, "image")
        if array.ndim != 4:
            return Images(iter([array]), 1, single=True)
        if array.dtype.kind != "f" or array.shape[1:] != dims:
            raise InputError(f"a batch of {_told(array)} cannot be used; {_usable(dims)}")
        if not len(array):
            raise InputError("the array holds no image")
        return Images(iter(array), len(array), at_once=MOST_AT_ONCE)
    if isinstance(given, Iterable):
        return Images(iter(given), None)
    raise InputError(f"{type(given).__name__} is no image; {_usable(dims)}")


def is_several(target: Any) -> bool:
    """Whether targets are given one by one; a name is one target."""
    return isinstance(target, Iterable) and not isinstance(target, str)


def paired(images: Iterator[Any], classes: Iterator[int | None]) -> Iterator[tuple[str, Any, int | None]]:
    """A name for errors, an image and its class; classes that run out, or that are left over, are an error."""
    count, end = 0, object()
    for count, image in enumerate(images, 1):
        index: Any = next(classes, end)
        if index is end:
            raise InputError(f"{count - 1} targets for more images; give one for all or one for each")
        yield f"image {count}", image, index
    if not isinstance(classes, repeat) and next(classes, end) is not end:
        raise InputError(f"more than {count} targets for {count} images; give one for all or one for each")


def prepare_image(image: Any, preprocess: Preprocess, dims: ImageDims, name: str = "image") -> Prepared:
    """One image, whatever it is, as the model takes it; `name` stands for it in errors if it has none of its own."""
    if not isinstance(image, PICTURES):
        if not hasattr(image, "__array__"):
            raise InputError(f"{name}: {type(image).__name__} is no image; {_usable(dims)}")
        image = _array(image, name)
        if image.dtype.kind == "f" and image.shape == dims:
            return _as_it_is(image, name)
        if image.dtype != np.uint8 or not (image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 3)):
            raise InputError(f"{name}: {_told(image)} cannot be used; {_usable(dims)}")
    if dims.channels != 3:
        raise InputError(f"{name}: the model takes {dims.channels} channels, an image has 3; {_usable(dims)}")
    return Prepared(*prepare(_upright(image, name), preprocess))


def _as_it_is(values: Array, name: str) -> Prepared:
    """What was preprocessed already: its frame is the image."""
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


def _array(given: Any, name: str) -> Array:
    """Anything with `__array__`, as NumPy has it."""
    try:
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:  # say, a tensor on another device
        raise InputError(f"{name}: {type(given).__name__} cannot become a NumPy array ({error})") from None


def _told(array: Array) -> str:
    return f"an array of shape {array.shape} and type {array.dtype}"


def _usable(dims: ImageDims) -> str:
    """What would have been an image."""
    taken = ", ".join(map(str, dims))
    pixels = "pixels (H, W, 3) or (H, W) of type uint8, " if dims.channels == 3 else ""
    files = "a path, the bytes of a file, a PIL image, " if dims.channels == 3 else ""
    return f"give {files}{pixels}or preprocessed floats ({taken}), for a batch (B, {taken})"
