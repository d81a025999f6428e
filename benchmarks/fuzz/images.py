"""Damaged pictures and odd paths in the place of pictures."""

from __future__ import annotations

import os
import socket
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from .case import EXPLAIN, IMAGE, MODEL, SETTINGS, Mutator, Scene, Trial, pick
from .seeds import encoded, model_bytes, picture

ROWS: dict[str, Mutator] = {}
FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "GIF", "BMP", "PPM", "TGA", "ICO", "JPEG2000")
Draw = np.random.Generator
Content = Callable[[Draw], tuple[bytes, str]]
Layout = Callable[[Path, Draw], tuple[str, str]]  # makes something in a folder; its path as an argument, and words


def content(name: str) -> Callable[[Content], Content]:
    """A row that writes a file; its ending is that of PNG, whatever it holds."""

    def register(make: Content) -> Content:
        def trial(scene: Scene) -> Trial:
            (scene.folder / MODEL).write_bytes(model_bytes("vit"))
            data, what = make(scene.rng)
            (scene.folder / IMAGE).write_bytes(data)
            return Trial(what)

        ROWS[name] = trial
        return make

    return register


def layout(name: str) -> Callable[[Layout], Layout]:
    """A row that makes something else than a plain file, or names one in an odd way."""

    def register(make: Layout) -> Layout:
        def trial(scene: Scene) -> Trial:
            (scene.folder / MODEL).write_bytes(model_bytes("vit"))
            argument, what = make(scene.folder, scene.rng)
            return Trial(what, ("explain", MODEL, argument, *SETTINGS))

        ROWS[name] = trial
        return make

    return register


@content("flipped bits")
def flipped(rng: Draw) -> tuple[bytes, str]:
    form = pick(rng, FORMATS)
    data = np.frombuffer(encoded(picture(), form), np.uint8).copy()
    reach = len(data) if rng.random() < 0.5 else min(len(data), 100)  # half of them in the header
    places = rng.integers(0, reach, int(pick(rng, (1, 4, 40))))
    data[places] ^= (1 << rng.integers(0, 8, len(places))).astype(np.uint8)
    return data.tobytes(), f"{form}: {len(places)} bits, the first in byte {places[0]}"


@content("cut short")
def cut(rng: Draw) -> tuple[bytes, str]:
    form = pick(rng, FORMATS)
    data = encoded(picture(), form)
    length = int(rng.integers(len(data)))
    return data[:length], f"{form}: {length} of {len(data)} bytes"


@content("zero bytes, or random ones")
def junk(rng: Draw) -> tuple[bytes, str]:
    data = pick(rng, (b"", b"\0" * 1000, rng.bytes(1000), b"\x89PNG\r\n\x1a\n", b"<svg/>", b"%!PS-Adobe", b"MZ"))
    return data, f"{len(data)} bytes, {data[:8]!r}"


@content("huge dims in the header")
def huge(rng: Draw) -> tuple[bytes, str]:
    sides = [int(n) for n in pick(rng, ((2**31 - 1,) * 2, (65500, 65500), (1, 2**31 - 1), (0, 5), (20000, 4999)))]
    if rng.random() < 0.5:
        head = struct.pack(">IIBBBBB", *sides, 8, 2, 0, 0, 0)
        chunk = b"IHDR" + head
        start = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
        return start + encoded(picture())[33:], f"PNG of {sides}"
    data = bytearray(encoded(picture(), "BMP"))
    data[18:26] = struct.pack("<ii", *sides)
    return bytes(data), f"BMP of {sides}"


@content("text chunk that unpacks to much")
def zip_text(rng: Draw) -> tuple[bytes, str]:
    size = int(pick(rng, (10**6, 10**8)))
    chunk = b"zTXtComment\0\0" + zlib.compress(bytes(size))
    packed = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    data = encoded(picture())
    return data[:33] + packed + data[33:], f"{size} bytes of text"


@content("odd modes")
def modes(rng: Draw) -> tuple[bytes, str]:
    mode = pick(rng, ("1", "L", "LA", "P", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "I;16", "PA"))
    base = picture(mode="L" if mode in ("I", "F", "I;16", "PA") else "RGB")
    image = base.convert("I").convert("I;16") if mode == "I;16" else base.convert(mode)
    for form in ("PNG", "TIFF", "JPEG"):
        try:
            return encoded(image, form), f"{form} of mode {mode}"
        except (OSError, ValueError, KeyError):
            continue
    return encoded(picture()), f"mode {mode} cannot be written"


@content("odd numbers in float pictures")
def floats(rng: Draw) -> tuple[bytes, str]:
    pixels = np.linspace(0, 1, 400, dtype=np.float32).reshape(20, 20)
    odd = float(pick(rng, (np.nan, np.inf, -np.inf, 1e38, -5.0)))
    pixels[3, 4] = odd
    return encoded(Image.fromarray(pixels), "TIFF"), f"TIFF with {odd}"


@content("several frames")
def frames(rng: Draw) -> tuple[bytes, str]:
    form, count = pick(rng, ("GIF", "WEBP", "PNG", "TIFF")), int(pick(rng, (2, 9, 60)))
    more = [picture().rotate(7 * i) for i in range(1, count)]
    return encoded(picture(), form, save_all=True, append_images=more), f"{form} of {count} frames"


@content("long and thin")
def thin(rng: Draw) -> tuple[bytes, str]:
    size = pick(rng, ((1, 1), (1, 5000), (5000, 1), (3, 60000), (2, 2)))
    return encoded(Image.new("RGB", size, (200, 30, 90))), f"{size[0]}x{size[1]} pixels"


@content("EXIF junk")
def exif(rng: Draw) -> tuple[bytes, str]:
    value = pick(
        rng, (b"Exif\0\0" + rng.bytes(60), b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\xff\xff\0\0", b"")
    )
    return encoded(picture(), "JPEG", exif=value), f"EXIF {value[:24]!r}"


@layout("not a file")
def not_a_file(folder: Path, rng: Draw) -> tuple[str, str]:
    what = pick(rng, ("pipe", "socket", "folder", "missing", "loop", "dangling", "/dev/zero", "/dev/null", "/dev/full"))
    path = folder / IMAGE
    match what:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as end:
                end.bind(IMAGE)  # by a relative name: the absolute one may be too long for a socket
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(IMAGE)
        case "dangling":
            path.symlink_to("nowhere")
        case "missing":
            pass
        case _:
            path.symlink_to(what)
    return IMAGE, what


@layout("odd names")
def odd_names(folder: Path, rng: Draw) -> tuple[str, str]:
    name = pick(rng, (
        "a\x1b[31m.png", "a\nb.png", "\udcff\udcfe.png", "x" * 240 + ".png", "-o", "💥.png", " .png", "a*b?.png",
        "[.png", "CON.png", "..png", "%s.png", "\u202egnp.png", "a.tar.png.jpg", "\t.png",
    ))  # fmt: skip
    (folder / os.fsencode(name).decode("utf-8", "surrogateescape")).write_bytes(encoded(picture()))
    return f"./{name}", f"named {name[:20]!r}"


@layout("odd arguments")
def odd_arguments(folder: Path, rng: Draw) -> tuple[str, str]:
    (folder / IMAGE).write_bytes(encoded(picture()))
    name = pick(rng, (
        "", ".", "..", "/", "x" * 5000, "a/" * 3000, "~", "**", "[", "[!", "*" * 200, "{a,b}", "\udcff", "image.png/",
        "image.png/x", MODEL, "./*.png", "/proc/self/mem", "\x1b[2J",
    ))  # fmt: skip
    return name, f"argument {name[:20]!r}"


@layout("folder of many")
def folder_of_many(folder: Path, rng: Draw) -> tuple[str, str]:
    inner, data = folder / "many", encoded(picture())
    inner.mkdir()
    for i in range(4):
        (inner / f"{i}.png").write_bytes(data if rng.random() < 0.5 else data[: int(rng.integers(len(data)))])
    os.mkfifo(inner / "pipe.png")
    (inner / "loop.png").symlink_to("loop.png")
    return "many", "a folder of sound and cut pictures, a pipe and a loop"


def region(scene: Scene) -> Trial:
    """A segmentation asked about a region that is no mask."""
    (scene.folder / MODEL).write_bytes(model_bytes("segmenter"))
    (scene.folder / IMAGE).write_bytes(encoded(picture()))
    masks = {
        "empty.png": encoded(Image.new("L", (50, 40))), "wide.png": encoded(Image.new("L", (5000, 2), 255)),
        "cut.png": encoded(picture())[:100], "same.png": encoded(Image.new("1", (50, 40), 1)),
    }  # fmt: skip
    for name, data in masks.items():
        (scene.folder / name).write_bytes(data)
    os.mkfifo(scene.folder / "pipe")
    odd = ("-1,5", "1e9,3", "nan,nan", "50,40", "9" * 400 + ",1", "", "pipe", ".", "missing.png")
    chosen = pick(scene.rng, (*masks, *odd))
    return Trial(f"region {chosen[:20]!r}", (*EXPLAIN, "--region", chosen))


ROWS["regions"] = region
