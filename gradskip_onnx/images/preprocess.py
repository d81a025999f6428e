"""Preprocesses images into model inputs, and places maps of the input back on the image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from PIL import Image

from gradskip_onnx.errors import InputError
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


@dataclass(frozen=True, slots=True)
class Preprocess:
    """Resize so that `crop` of a side remains after the centre crop to `size`; then (value/255 - mean) / std."""

    size: Size = (224, 224)
    crop: float = 0.875
    mean: Triple = PRESETS["imagenet"]["mean"]
    std: Triple = PRESETS["imagenet"]["std"]
    interpolation: str = "bicubic"
    resize: Literal["short-side", "stretch"] = "short-side"
    channels: Literal["rgb", "bgr"] = "rgb"
    source: str = "assumed"

    def __post_init__(self) -> None:
        """Check every value: it may come from a file of unknown origin."""
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
            ("resize", self.resize, self.resize in ("short-side", "stretch")),
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
        unknown = sorted(map(str, set(document) - {field.name for field in fields(cls)}))
        if unknown:
            raise InputError(f"preprocessing: unknown field {unknown[0]!r:.80}; written by a newer version?")
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in document.items()
        }
        found = cls(**values)
        if max(found.size) > STORED_SIDE.amount:
            raise InputError(
                f"preprocessing: size = {_by(found.size)}, a file may ask for {STORED_SIDE.amount} pixels a side"
            )
        return found

    def overlay(self, values: Mapping[str, Any], source: str) -> Preprocess:
        """These settings with some fields replaced; `source` says where those came from."""
        if not values:
            return self
        rest = [field.name for field in fields(self) if field.name not in values and field.name != "source"]
        text = f"{', '.join(values)}: {source}" + (f"; other: {self.source}" if rest else "")
        return replace(self, **values, source=text)


_EXPECTED = {
    "size": f"two whole numbers, height and width, 1 to {INPUT_SIDE.default}",
    "crop": "a fraction above 0 and at most 1",
    "mean": "three finite numbers",
    "std": "three positive numbers",
    "interpolation": f"one of {', '.join(INTERPOLATIONS)}",
    "resize": "short-side or stretch",
    "channels": "rgb or bgr",
    "source": "a text",
}


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
    if rows * width >= columns * height:  # the height is the limiting side
        return rows, max(columns, int(rows * width / height))
    return max(rows, int(columns * height / width)), columns


def prepare(image: Image.Image, preprocess: Preprocess) -> tuple[Array, Geometry]:
    """The model input (3, H, W) float32 of an upright RGB image (see `read`), and the part of the image it covers."""
    if image.mode != "RGB":
        raise InputError(f"an image of mode {image.mode} must become upright RGB first; see images.read.upright_rgb")
    width, height = image.size
    rows, columns = resized((height, width), preprocess)
    if rows * columns > PIXELS.amount:
        raise InputError(f"image of {width}x{height} pixels is too elongated: resized it would be {columns}x{rows}")
    if (rows, columns) != (height, width):
        # Pillow gives the same bytes as the transforms of torchvision and timm
        image = image.resize((columns, rows), INTERPOLATIONS[preprocess.interpolation])
    top, left = (round((have - want) / 2.0) for have, want in zip((rows, columns), preprocess.size, strict=True))
    bottom, right = top + preprocess.size[0], left + preprocess.size[1]
    values = normalise(np.asarray(image.crop((left, top, right, bottom))), preprocess)
    x, y = width / columns, height / rows
    return values, Geometry((height, width), (left * x, top * y, right * x, bottom * y))


def normalise(pixels: Array, preprocess: Preprocess) -> Array:
    """(H, W, 3) bytes -> (3, H, W) float32."""
    unit = pixels.astype(np.float32) / np.float32(255)
    ordered = unit[..., ::-1] if preprocess.channels == "bgr" else unit
    scaled = (ordered - np.array(preprocess.mean, np.float32)) / np.array(preprocess.std, np.float32)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))


def denormalise(values: Array, preprocess: Preprocess) -> Image.Image:
    """The picture behind a model input (3, H, W), for display."""
    unit = values.transpose(1, 2, 0) * np.array(preprocess.std, np.float32) + np.array(preprocess.mean, np.float32)
    ordered = unit[..., ::-1] if preprocess.channels == "bgr" else unit
    return Image.fromarray(np.rint(np.clip(ordered, 0, 1) * 255).astype(np.uint8))


def resolve(
    *,
    flags: Mapping[str, Any],
    metadata: Preprocess | None,
    sidecar: Preprocess | None,
    input_size: Size | None,
) -> tuple[Preprocess, tuple[str, ...]]:
    """The preprocessing to use, and warnings. Priority: flags, metadata, sidecar, defaults (with a warning).

    `input_size` is the only size the model takes, or None if it takes any.
    """
    stored = metadata or sidecar
    base = stored or Preprocess()
    chosen = base.overlay(flags, "command line")
    warnings = []
    missing = [name for name in ("mean", "std", "crop") if stored is None and name not in flags]
    if missing:
        warnings.append(f"preprocessing is not known: assumed {_describe(base, missing)}; see --preset, --crop")
    if input_size is not None and chosen.size != input_size:
        if "size" in flags:
            raise InputError(f"--size {_by(chosen.size)}: the model takes {_by(input_size)} only")
        if stored is not None:
            warnings.append(f"the model takes {_by(input_size)}, not {_by(chosen.size)} as in {stored.source}")
        chosen = replace(chosen, size=input_size)
    elif input_size is None and stored is None and "size" not in flags:
        warnings.append(f"the model takes any size: assumed {_by(chosen.size)}; see --size")
    return chosen, tuple(warnings)


def _describe(preprocess: Preprocess, names: Sequence[str]) -> str:
    texts = []
    for name in names:
        value = getattr(preprocess, name)
        texts.append(f"{name} {' '.join(f'{n:g}' for n in value) if isinstance(value, tuple) else f'{value:g}'}")
    return ", ".join(texts)


def _by(size: Size) -> str:
    """A size as text: HEIGHTxWIDTH."""
    return f"{size[0]}x{size[1]}"
