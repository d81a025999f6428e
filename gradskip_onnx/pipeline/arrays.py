"""What arrays mean as images: uint8 are pixels, with channels last or first; floats are the model's input already."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from PIL import Image

from gradskip_onnx.errors import InputError, PreprocessingWarning
from gradskip_onnx.images.interpolate import normalise
from gradskip_onnx.images.preprocess import Preprocess, denormalise
from gradskip_onnx.types import Array, ImageDims

CHANNEL_COUNTS = (1, 3, 4)  # of pixels: grey, RGB, RGB with transparency
UNIT_STEPS = 10.0  # so many times the largest value that pixels can become: then they were not divided by 255


def is_array(image: object) -> bool:
    """Whether an object is an array or can become one, such as a tensor of another library."""
    return hasattr(image, "__array__") or hasattr(image, "__dlpack__")


def as_array(image: Any, name: str) -> Array:
    """The NumPy array of an array or tensor; a tensor is first cut from its gradients and brought to the CPU."""
    try:
        for step in ("detach", "cpu"):  # names that PyTorch has, and libraries that follow it
            image = getattr(image, step)() if callable(getattr(image, step, None)) else image
        return np.asarray(image) if hasattr(image, "__array__") else np.from_dlpack(image)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:  # a device or element type that NumPy lacks
        raise InputError(f"{name}: {type(image).__name__} cannot become a NumPy array ({error})") from None


def is_input(array: Array, dims: ImageDims) -> bool:
    """Whether an array (channels, H, W) is one input of the model, preprocessed."""
    return array.dtype.kind == "f" and array.shape == dims


def pixels_of(array: Array, name: str, dims: ImageDims) -> Array:
    """uint8 pixels (H, W), (H, W, 3) or (H, W, 4); channels that come first are moved to the end."""
    last, first = (array.ndim == 3 and array.shape[axis] in CHANNEL_COUNTS for axis in (2, 0))
    if array.dtype != np.uint8 or not (array.ndim == 2 or last or first):
        raise InputError(f"{name}: {described(array)} cannot be used{_hint(array, dims)}; {accepted(dims)}")
    if last and first:
        raise InputError(f"{name}: {described(array)} may have its channels first or last; give a PIL image")
    placed = array if last or array.ndim == 2 else array.transpose(1, 2, 0)
    return placed[..., 0] if placed.ndim == 3 and placed.shape[2] == 1 else placed


def batch_of(array: Array, dims: ImageDims) -> bool:
    """Whether four axes are a batch of inputs (else one of pixels); raises InputError for what is neither."""
    if not len(array):
        raise InputError("the array holds no image")
    if is_input(array[0], dims):
        return True
    if array.dtype != np.uint8 or not {array.shape[1], array.shape[3]} & set(CHANNEL_COUNTS):
        raise InputError(f"a batch of {described(array)} cannot be used{_hint(array[0], dims)}; {accepted(dims)}")
    return False


def check_input(values: Array, preprocess: Preprocess, name: str) -> None:
    """Raise InputError for an input that is not finite; warn of one that looks as if it were not preprocessed."""
    low, high = float(values.min()), float(values.max())
    if not np.isfinite([low, high]).all():
        raise InputError(f"{name}: the array holds NaN or infinity")
    mean, std = np.array(preprocess.mean), np.array(preprocess.std)
    darkest, brightest = float((-mean / std).min()), float(((1 - mean) / std).max())
    whole = low >= 0 and high > UNIT_STEPS * brightest and high <= 255
    unit = low >= 0 and 0.5 < high <= 1 and darkest < -0.5
    if whole or unit:
        warnings.warn(
            f"{name}: floats of {low:g} to {high:g} look like pixels, and are used as they are, without mean and std; "
            "give pixels as uint8 (H, W, 3) to have them preprocessed",
            PreprocessingWarning,
            stacklevel=2,
        )


def picture_of_input(values: Array, preprocess: Preprocess) -> Image.Image:
    """The image behind an input (channels, H, W), for display; grey where the channels are not three."""
    if len(values) == 3:
        return denormalise(values.astype(np.float32), preprocess)
    grey = normalise(values.astype(np.float64).mean(axis=0))
    return Image.fromarray(np.rint(grey * 255).astype(np.uint8)).convert("RGB")


def described(array: Array) -> str:
    return f"an array of shape {array.shape} and type {array.dtype}"


def accepted(dims: ImageDims) -> str:
    """The accepted kinds of image, for error messages."""
    shape = ", ".join(map(str, dims))
    pixels = "pixels (H, W, 3), (3, H, W) or (H, W) of type uint8, " if dims.channels == 3 else ""
    files = "a path, an open file, the bytes of one, a PIL image, " if dims.channels == 3 else ""
    return f"give {files}{pixels}or preprocessed floats ({shape}), for a batch (B, {shape})"


def _hint(array: Array, dims: ImageDims) -> str:
    """What to do with an array that is nearly right."""
    if array.ndim != 3 or dims.channels != 3:
        return ""
    if array.dtype.kind == "f" and array.shape == (dims.height, dims.width, dims.channels):
        return " (preprocessed with channels last? give array.transpose(2, 0, 1))"
    if array.dtype.kind == "f":
        return " (pixels of 0 to 1? give (array * 255).round().astype('uint8'))"
    return " (pixels of 0 to 255? give array.astype('uint8'))" if array.dtype.kind in "iu" else ""
