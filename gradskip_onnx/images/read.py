"""Opens untrusted images: checks the size, takes the first frame, returns upright eight-bit RGB."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from gradskip_onnx.errors import InputError
from gradskip_onnx.limits import IMAGE_BYTES, PIXELS
from gradskip_onnx.types import Array
from gradskip_onnx.untrusted_files import read_bounded, shortened

COMMON = ("PNG", "JPEG")
# EPS and similar formats are left out on purpose: Pillow opens them by starting another program.
FORMATS = ("PNG", "JPEG", "MPO", "WEBP", "BMP", "GIF", "TIFF", "PPM", "TGA", "ICO", "JPEG2000", "AVIF")
SUFFIXES = (
    ".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".gif", ".tif", ".tiff",
    ".ppm", ".pgm", ".pbm", ".tga", ".ico", ".jp2", ".avif",
)  # fmt: skip

# Everything the decoders of Pillow are known to raise on broken files.
BROKEN = (OSError, SyntaxError, ValueError, EOFError, OverflowError, IndexError, RuntimeError, struct.error)


_RAISED = RLock()  # held while Pillow's bound is not its own


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """An upright RGB image, with the path, SHA-256 and bytes of its file."""

    name: str
    image: Image.Image
    sha256: str | None = None  # None, and no bytes, for an image that came as pixels
    encoded: bytes | None = None


def open_picture(path: Path | str) -> Picture:
    """Open an image file as upright RGB; raises InputError with the path if that fails."""
    path = Path(path)
    if not os.path.lexists(path):
        raise InputError(f"{shortened(path)}: no such image")
    return decode_picture(read_bounded(path, IMAGE_BYTES), str(path))


def decode_picture(data: bytes, name: str) -> Picture:
    """The picture in the bytes of an image file."""
    return Picture(name, decode(data, name), hashlib.sha256(data).hexdigest(), data)


def read_stream(stream: BinaryIO, name: str) -> Picture:
    """The picture in an open binary file, from where it stands."""
    title = getattr(stream, "name", None)  # a number for a pipe
    name = title if isinstance(title, str) and title else name
    try:
        data = stream.read(IMAGE_BYTES.amount + 1)
    except (OSError, ValueError) as error:  # ValueError: it is closed
        raise InputError(f"{name}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InputError(f"{name}: gave {type(data).__name__} and not bytes; open it in binary mode, 'rb'")
    if len(data) > IMAGE_BYTES.amount:
        raise InputError(f"{name}: larger than the limit of {IMAGE_BYTES.amount} bytes")
    return decode_picture(bytes(data), name)


def decode(data: bytes, name: str) -> Image.Image:
    """The first frame of an encoded image as upright RGB."""
    try:
        with _QUIET, pillow_bound(), _identify(data) as image:
            check_size(image, name)
            image.load()
            return upright_rgb(image, name)
    except Image.DecompressionBombError as error:
        raise InputError(f"{name}: image too large, limit {PIXELS.amount} pixels ({error}); shrink it first") from None
    except UnidentifiedImageError:
        raise InputError(f"{name}: not an image that can be read (known: PNG, JPEG, WebP, TIFF, ...)") from None
    except BROKEN as error:
        raise InputError(f"{name}: broken image ({str(error) or type(error).__name__})") from None


class _QuietPillow:
    """While any thread is inside, Pillow's warnings are ignored: those about decompression bombs, which `check_size`
    refuses, and those about harmless bad metadata.

    The filters of Python belong to the whole process: the first thread that enters changes them and the last that
    leaves restores them. `warnings.catch_warnings` in each would leave those of another thread behind.
    """

    def __init__(self) -> None:
        self._lock, self._inside = RLock(), 0
        self._caught = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._caught = warnings.catch_warnings()
                self._caught.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\.")
            self._inside += 1

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._caught.__exit__(None, None, None)


_QUIET = _QuietPillow()


@contextmanager
def pillow_bound() -> Iterator[None]:
    """Where our limit was raised, let Pillow's own bound, which is lower, not stand in its way while the block runs.

    Pillow has one for the whole process: it is changed only then, and by one thread at a time.
    """
    if PIXELS.amount <= PIXELS.default:
        yield
        return
    with _RAISED:
        bound = Image.MAX_IMAGE_PIXELS
        Image.MAX_IMAGE_PIXELS = None if bound is None else max(bound, PIXELS.amount)
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = bound


def check_size(image: Image.Image, name: str) -> None:
    """Raise InputError for an empty or too large image, before it is decoded."""
    width, height = image.size
    if width * height > PIXELS.amount:
        raise InputError(
            f"{name}: too large, {width}x{height} = {width * height} pixels, limit {PIXELS.amount}; shrink it first"
        )
    if width * height == 0:
        raise InputError(f"{name}: empty image, {width}x{height} pixels")


def upright_rgb(image: Image.Image, name: str = "image") -> Image.Image:
    """Any decoded image as RGB the way a viewer shows it: EXIF orientation applied, transparency over white."""
    check_size(image, name)
    rgb = _rgb(_turned(image), name)
    rgb = rgb.copy() if rgb is image else rgb  # the caller keeps his
    rgb.info = {}  # without it the orientation cannot be applied a second time
    return rgb


def rgb_of_pixels(pixels: Array, name: str = "image") -> Image.Image:
    """An RGB image of uint8 pixels: (H, W, 3), (H, W, 4) with transparency, or grey (H, W)."""
    if not pixels.size:
        raise InputError(f"{name}: empty image, an array of shape {pixels.shape}")
    return upright_rgb(Image.fromarray(np.ascontiguousarray(pixels)), name)


def _turned(image: Image.Image) -> Image.Image:
    """The image turned by its EXIF orientation; an unreadable orientation is ignored."""
    try:
        return ImageOps.exif_transpose(image)
    except BROKEN:
        return image


def _rgb(image: Image.Image, name: str) -> Image.Image:
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I") or image.mode == "F":
        return _from_wide(image, name)
    if "A" in image.getbands() or "a" in image.getbands() or "transparency" in image.info:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, layer).convert("RGB")
    return image.convert("RGB")


def _from_wide(image: Image.Image, name: str) -> Image.Image:
    """Grey values of more than eight bits scaled to 0..255, by the smallest range (1, 255 or 65535) that holds them."""
    values = np.asarray(image).astype(np.float64)
    low, high = float(values.min()), float(values.max())
    scales = ((1.0, 255.0), (255.0, 1.0), (65535.0, 255.0 / 65535.0))
    first = 0 if image.mode == "F" else 2 if image.mode.startswith("I;16") else 1  # I;16 always spans 16 bits
    scale = next((factor for top, factor in scales[first:] if high <= top), None)
    if scale is None or low < 0 or not np.isfinite(values).all():
        raise InputError(f"{name}: grey values {low:g}..{high:g} (mode {image.mode}); convert it to 8 or 16 bits first")
    return Image.fromarray(np.rint(values * scale).astype(np.uint8)).convert("RGB")


def _identify(data: bytes) -> Image.Image:
    """The image, not decoded yet. For rarer formats Pillow loads all its plugins, which takes 10 ms."""
    try:
        return Image.open(io.BytesIO(data), formats=COMMON)
    except UnidentifiedImageError:
        Image.init()
        return Image.open(io.BytesIO(data), formats=[name for name in FORMATS if name in Image.OPEN])
