"""Preprocesses images into model inputs, and places maps of the input back on the image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from PIL import Image

from gradskip_onnx.errors import InputError, unknown_name
from gradskip_onnx.limits import INPUT_SIDE, PIXELS, STORED_SIDE
from gradskip_onnx.types import Array, Size

from .interpolate import Box, place

Triple = tuple[float, float, float]

# Codes of Pillow, as Hugging Face configurations store them in `resample`.
INTERPOLATIONS: dict[str, Image.Resampling] = {
    "nearest": Image.Resampling.NEAREST,
    "lanczos": Image.Resampling.LANCZOS,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "box": Image.Resampling.BOX,
    "hamming": Image.Resampling.HAMMING,
}

# A preset is an overlay of the fields that name a normalisation.
PRESETS: dict[str, dict[str, Any]] = {
    "imagenet": {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)},
    "half": {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)},
    "clip": {"mean": (0.48145466, 0.4578275, 0.40821073), "std": (0.26862954, 0.26130258, 0.27577711)},
    "none": {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)},
}


# Ways of resizing an image to the input; earlier files have a longer name for the first.
RESIZES = ("shorter", "stretch", "pad")
EARLIER_NAMES = {"short-side": "shorter"}


@dataclass(frozen=True, slots=True)
class Preprocess:
    """Resize so that `crop` of a side remains after the centre crop to `size`; then (value/255 - mean) / std.

    Lists are taken for tuples, and one number for all sides or channels. A wrong value raises InputError.
    """

    size: Size = (224, 224)  # height and width of the model's input, in pixels
    crop: float = 0.875  # share of the resized image that the centre crop keeps, above 0 and at most 1
    mean: Triple = PRESETS["imagenet"]["mean"]  # of the channels in the order of `channels`, on values 0 to 1
    std: Triple = PRESETS["imagenet"]["std"]  # as the mean
    interpolation: str = "bicubic"  # of Pillow: nearest, lanczos, bilinear, bicubic, box or hamming
    resize: Literal["shorter", "stretch", "pad"] = "shorter"  # the shorter side fits, both do, or the longer one does
    channels: Literal["rgb", "bgr"] = "rgb"  # the order in which the model takes them
    source: str = "assumed"  # where these settings come from

    def __post_init__(self) -> None:
        """Bring values to one form and check them all: they may come from a file of unknown origin."""
        for name, count in (("size", 2), ("mean", 3), ("std", 3)):
            object.__setattr__(self, name, _as_tuple(getattr(self, name), count))
        if isinstance(self.resize, str):
            object.__setattr__(self, "resize", EARLIER_NAMES.get(self.resize, self.resize))
        checks: tuple[tuple[str, object, bool], ...] = (
            (
                "size",
                self.size,
                _numbers(self.size, 2, 1, INPUT_SIDE.amount) and all(isinstance(n, int) for n in self.size),
            ),
            ("crop", self.crop, _numbers((self.crop,), 1, 1e-3, 1.0)),
            ("mean", self.mean, _numbers(self.mean, 3, -1e6, 1e6)),
            ("std", self.std, _numbers(self.std, 3, 1e-9, 1e6)),
            ("interpolation", self.interpolation, self.interpolation in tuple(INTERPOLATIONS)),
            ("resize", self.resize, self.resize in RESIZES),
            ("channels", self.channels, self.channels in ("rgb", "bgr")),
            ("source", self.source, isinstance(self.source, str)),
        )
        for name, value, good in checks:
            if not good:
                raise InputError(f"preprocessing: {name} = {value!r:.80} cannot be used ({_EXPECTED[name]})")

    def as_dict(self) -> dict[str, Any]:
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, document: object) -> Preprocess:
        """The inverse of `as_dict`; missing fields keep their defaults, unknown ones are refused."""
        if not isinstance(document, Mapping):
            raise InputError(f"preprocessing: expected an object of fields, got {type(document).__name__}")
        unknown = sorted(map(str, set(document) - set(FIELDS)))
        if unknown:
            raise InputError(f"preprocessing: unknown field {unknown[0]!r:.80}; written by a newer version?")
        found = cls(**document)
        if max(found.size) > STORED_SIDE.amount:
            raise InputError(
                f"preprocessing: size = {_by(found.size)}, a file may ask for {STORED_SIDE.amount} pixels a side"
            )
        return found

    def overlay(self, values: Mapping[str, Any], source: str) -> Preprocess:
        """These settings with some fields replaced; `source` says where those came from."""
        if not values:
            return self
        settable = [name for name in FIELDS if name != "source"]
        for name in values:
            if name not in settable:
                raise unknown_name("preprocessing setting", name, settable)
        rest = set(settable) - set(values)
        text = f"{', '.join(values)}: {source}" + (f"; other: {self.source}" if rest else "")
        return replace(self, **values, source=text)


FIELDS = tuple(entry.name for entry in fields(Preprocess))
_EXPECTED = {
    "size": f"two whole numbers, height and width, 1 to {INPUT_SIDE.default}",
    "crop": "a fraction above 0 and at most 1",
    "mean": "three finite numbers",
    "std": "three positive numbers",
    "interpolation": f"one of {', '.join(INTERPOLATIONS)}",
    "resize": "shorter, stretch or pad",
    "channels": "rgb or bgr",
    "source": "a text",
}


def _as_tuple(value: Any, count: int) -> Any:
    """A list or array as a tuple, a single number as `count` of it; anything else as it is."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (value,) * count
    return tuple(value) if isinstance(value, list) else value


def _numbers(values: object, count: int, low: float, high: float) -> bool:
    """True for a tuple of `count` numbers in low..high; NaN and booleans do not count."""
    if not isinstance(values, tuple) or len(values) != count:
        return False
    return all(isinstance(n, (int, float)) and not isinstance(n, bool) and low <= n <= high for n in values)


@dataclass(frozen=True, slots=True)
class Geometry:
    """The part of the upright original image that the model sees."""

    image_size: Size
    box: Box  # in pixels of the original

    def place(self, values: Array) -> Array:
        """A map of the model input brought to the size of the original image; zero outside the box."""
        return place(values, self.image_size, self.box)


def resized(image_size: Size, preprocess: Preprocess) -> Size:
    """Height and width after resizing, before the centre crop; rounded as torchvision's Resize does."""
    # 1e-6 because dividing by a stored crop of 224/232 gives 231.999...
    target = tuple(int(side / preprocess.crop + 1e-6) for side in preprocess.size)
    if preprocess.resize == "stretch":
        return target[0], target[1]
    (height, width), (rows, columns) = image_size, target
    if preprocess.resize == "pad":
        factor = min(rows / height, columns / width)
        return max(1, round(height * factor)), max(1, round(width * factor))
    if rows * width >= columns * height:  # the height is the limiting side
        return rows, max(columns, int(rows * width / height))
    return max(rows, int(columns * height / width)), columns


def prepare(image: Image.Image, preprocess: Preprocess) -> tuple[Array, Geometry]:
    """The model input (3, H, W) float32 of an upright RGB image (see `read`), and the part of the image it covers.

    Where the image is padded, the input is 0, the mean colour, and the part it covers reaches beyond the image.
    """
    if image.mode != "RGB":
        raise InputError(f"an image of mode {image.mode} must become upright RGB first; see images.read.upright_rgb")
    width, height = image.size
    rows, columns = resized((height, width), preprocess)
    if rows * columns > PIXELS.amount:
        raise InputError(f"image of {width}x{height} pixels is too elongated: resized it would be {columns}x{rows}")
    if (rows, columns) != (height, width):
        # Pillow gives the same bytes as the transforms of torchvision and timm
        image = image.resize((columns, rows), INTERPOLATIONS[preprocess.interpolation])
    top, left, bottom, right = _crop(rows, columns, preprocess)
    values = normalise(np.asarray(image.crop((left, top, right, bottom))), preprocess)
    if rows < preprocess.size[0] or columns < preprocess.size[1]:
        inside = values[:, max(-top, 0) : rows - top, max(-left, 0) : columns - left].copy()
        values[:] = 0.0
        values[:, max(-top, 0) : rows - top, max(-left, 0) : columns - left] = inside
    return values, geometry((height, width), preprocess)


def geometry(image_size: Size, preprocess: Preprocess) -> Geometry:
    """The part of an image of this (height, width) that the model sees."""
    (height, width), (rows, columns) = image_size, resized(image_size, preprocess)
    top, left, bottom, right = _crop(rows, columns, preprocess)
    x, y = width / columns, height / rows
    return Geometry(image_size, (left * x, top * y, right * x, bottom * y))


def _crop(rows: int, columns: int, preprocess: Preprocess) -> tuple[int, int, int, int]:
    """Top, left, bottom and right of the centre crop of a resized image; padding reaches beyond it."""
    top, left = (round((have - want) / 2.0) for have, want in zip((rows, columns), preprocess.size, strict=True))
    return top, left, top + preprocess.size[0], left + preprocess.size[1]


def normalise(pixels: Array, preprocess: Preprocess) -> Array:
    """(H, W, 3) bytes -> (3, H, W) float32."""
    values = np.empty((3, *pixels.shape[:2]), np.float32)
    for at, table in enumerate(_tables(preprocess)):
        channel = 2 - at if preprocess.channels == "bgr" else at
        np.take(table, pixels[..., channel], out=values[at], mode="clip")  # without a mode it works on a copy
    return values


@lru_cache(16)
def _tables(preprocess: Preprocess) -> Array:
    """(3, 256): what each byte becomes in each channel of the model."""
    unit = np.arange(256, dtype=np.float32)[:, None] / np.float32(255)
    return ((unit - np.array(preprocess.mean, np.float32)) / np.array(preprocess.std, np.float32)).T.copy()


def denormalise(values: Array, preprocess: Preprocess) -> Image.Image:
    """The picture behind a model input (3, H, W), for display."""
    pixels = np.empty((*values.shape[1:], 3), np.uint8)
    for at, (channel, mean, std) in enumerate(zip(values, preprocess.mean, preprocess.std, strict=True)):
        unit = channel * np.float32(std)
        unit += np.float32(mean)
        np.clip(unit, 0, 1, out=unit)
        unit *= 255
        pixels[..., 2 - at if preprocess.channels == "bgr" else at] = np.rint(unit, out=unit)
    return Image.fromarray(pixels)


ASSUMED = ("mean", "std", "resize", "crop", "interpolation", "channels")  # what a file without settings leaves open


def resolve(
    *,
    flags: Mapping[str, Any],
    metadata: Preprocess | None,
    sidecar: Preprocess | None,
    input_size: Size | None,
) -> tuple[Preprocess, tuple[str, ...]]:
    """The preprocessing to use, and warnings. Priority: flags, metadata, sidecar, defaults (with a warning).

    `input_size` is the only size the model takes, or None if it takes any. An image that is stretched or padded as a
    whole is not cropped, unless that is said too.
    """
    stored = metadata or sidecar
    base = stored or Preprocess()
    if stored is None and flags.get("resize") in ("stretch", "pad"):
        base = replace(base, crop=1.0)
    chosen = base.overlay(flags, "command line")
    warnings = []
    if stored is None and not {"mean", "std", "crop"} <= set(flags):
        assumed = ", ".join(f"{name} {_words(getattr(chosen, name))}" for name in ASSUMED if name not in flags)
        warnings.append(
            f"preprocessing is not known: assumed {assumed}; "
            "say otherwise by preprocess={'mean': ..., ...}, on the command line by "
            "--preset, --mean, --std, --resize, --crop, --interpolation, --channels"
        )
    if input_size is not None and chosen.size != input_size:
        if "size" in flags:
            raise InputError(f"--size {_by(chosen.size)}: the model takes {_by(input_size)} only")
        if stored is not None:
            warnings.append(f"the model takes {_by(input_size)}, not {_by(chosen.size)} as in {stored.source}")
        chosen = replace(chosen, size=input_size)
    elif input_size is None and stored is None and "size" not in flags:
        warnings.append(f"the model takes any size: assumed {_by(chosen.size)}; see --size, in Python size=")
    return chosen, tuple(warnings)


def _words(value: object) -> str:
    return " ".join(f"{n:g}" for n in value) if isinstance(value, tuple) else str(value)


def _by(size: Size) -> str:
    """A size as text: HEIGHTxWIDTH."""
    return f"{size[0]}x{size[1]}"
