"""Regions that a user names, such as logo=corner:bottom-right: where relevance is allowed, or should not be.

A region is said in fractions of the picture, so that it means the same in pictures of any size.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from gradskip_onnx.errors import InputError, unknown_name
from gradskip_onnx.evaluation.truth import seen_box, seen_pixels
from gradskip_onnx.images.labels import read_text
from gradskip_onnx.images.preprocess import Geometry
from gradskip_onnx.images.read import open_picture
from gradskip_onnx.metrics.pointing import box_mask
from gradskip_onnx.types import Array, Size

LIGHT = 128  # pixels of a mask from this level on are the region
NAME = re.compile(r"[\w .+-]{1,60}")
CORNERS = ("top-left", "top-right", "bottom-left", "bottom-right")
EDGES = ("top", "bottom", "left", "right")
Boxes = tuple[tuple[float, float, float, float], ...]  # left, top, right, bottom, in fractions of the picture


@dataclass(frozen=True, slots=True, eq=False)
class NamedRegion:
    """A region: a union of boxes, or the light pixels of a mask that is stretched over each picture."""

    name: str
    text: str  # as the user wrote it
    boxes: Boxes = ()
    mask: Array | None = None  # (H, W) booleans

    def facts(self) -> dict[str, Any]:
        """The region for audit.json."""
        kind, _, rest = self.text.partition(":")
        text = self.text if self.mask is None else f"{kind}:{PurePath(rest).name}"  # a folder would name the machine
        found: dict[str, Any] = {"name": self.name, "kind": kind, "text": text, "boxes": self.boxes}
        if self.mask is not None:
            packed = np.packbits(self.mask).tobytes()
            found |= {"mask_sha256": hashlib.sha256(packed).hexdigest(), "mask_size": self.mask.shape}
        return found

    def pixels(self, geometry: Geometry, size: Size) -> Array:
        """(H, W) booleans: the pixels of the model's input that show the region."""
        height, width = geometry.image_size
        if self.mask is not None:
            across, down = self.mask.shape[1] / width, self.mask.shape[0] / height
            x0, y0, x1, y1 = geometry.box
            stretched = Geometry(self.mask.shape, (x0 * across, y0 * down, x1 * across, y1 * down))
            return seen_pixels(self.mask, stretched, size, False).astype(bool)
        seen = [seen_box((x0 * width, y0 * height, x1 * width, y1 * height), geometry, size)
                for x0, y0, x1, y1 in self.boxes]  # fmt: skip
        return box_mask([tuple(round(side, 6) for side in box) for box in seen], size)  # type: ignore[misc]


def read_regions(texts: tuple[str, ...], file: Path | None = None) -> tuple[NamedRegion, ...]:
    """The regions of NAME=KIND:... texts and of a file with the same in TOML: `logo = "corner:bottom-right"`."""
    pairs = [_split(text) for text in texts]
    if file is not None:
        pairs += [(str(name), str(text)) for name, text in _file_rows(file).items()]
    beside = Path() if file is None else file.parent
    return tuple(_region(name, text, Path() if at < len(texts) else beside) for at, (name, text) in enumerate(pairs))


def _split(text: str) -> tuple[str, str]:
    name, equals, kind = text.partition("=")
    if not equals:
        raise InputError(f"region {text!r:.80}: write NAME=KIND:..., such as logo=corner:bottom-right:0.2")
    return name.strip(), kind.strip()


def _file_rows(file: Path) -> Mapping[str, Any]:
    try:
        document = tomllib.loads(read_text(file))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{file}: not TOML ({str(error)[:120]})") from None
    rows = document.get("regions", document)
    if not isinstance(rows, dict) or not all(isinstance(text, str) for text in rows.values()):
        raise InputError(f'{file}: expected lines such as logo = "corner:bottom-right:0.2"')
    return rows


def _region(name: str, text: str, beside: Path) -> NamedRegion:
    if NAME.fullmatch(name) is None:
        raise InputError(f"region {name!r:.80}: a name has up to 60 letters, digits, spaces and . + -")
    kind, _, rest = text.partition(":")
    if kind not in KINDS:
        raise unknown_name("kind of region", kind, tuple(KINDS))
    try:
        return replace(KINDS[kind](rest, beside), name=name, text=text)
    except ValueError as error:
        raise InputError(f"region {name}={text!r:.80}: {error}") from None


def _box(text: str, _beside: Path) -> NamedRegion:
    """left,top,right,bottom, in fractions of the picture."""
    sides = [float(part) for part in text.split(",")]
    if len(sides) != 4 or not (0 <= sides[0] < sides[2] <= 1 and 0 <= sides[1] < sides[3] <= 1):
        raise ValueError("write box:LEFT,TOP,RIGHT,BOTTOM in fractions of the picture, 0 to 1")
    return NamedRegion("", "", ((sides[0], sides[1], sides[2], sides[3]),))


def _corner(text: str, _beside: Path) -> NamedRegion:
    """PLACE[:SIDE]: a square corner; SIDE is a fraction of width and height."""
    place, side = _place(text, CORNERS, 0.2)
    return NamedRegion("", "", (_corner_box(place, side),))


def _edge(text: str, _beside: Path) -> NamedRegion:
    """PLACE[:DEPTH]: a strip along one side."""
    place, depth = _place(text, EDGES, 0.12)
    return NamedRegion("", "", (_edge_box(place, depth),))


def _text(text: str, _beside: Path) -> NamedRegion:
    """[DEPTH]: where captions, dates and tickers stand, along the top and the bottom."""
    depth = _fraction(text or "0.12")
    return NamedRegion("", "", (_edge_box("top", depth), _edge_box("bottom", depth)))


def _watermark(text: str, _beside: Path) -> NamedRegion:
    """[SIDE]: where logos and watermarks stand, in the four corners."""
    side = _fraction(text or "0.2")
    return NamedRegion("", "", tuple(_corner_box(place, side) for place in CORNERS))


def _mask(text: str, beside: Path) -> NamedRegion:
    """FILE: a picture whose light pixels are the region."""
    mask = np.asarray(open_picture(beside / text).image.convert("L")) >= LIGHT
    if not mask.any():
        raise ValueError(f"the mask is empty; light pixels ({LIGHT} and above) are the region")
    return NamedRegion("", "", mask=mask)


KINDS: Mapping[str, Callable[[str, Path], NamedRegion]] = {
    "box": _box,
    "corner": _corner,
    "edge": _edge,
    "text": _text,
    "watermark": _watermark,
    "mask": _mask,
}


def _place(text: str, known: tuple[str, ...], usual: float) -> tuple[str, float]:
    place, _, size = text.partition(":")
    if place not in known:
        raise ValueError(f"the place {place!r} is not one of {', '.join(known)}")
    return place, _fraction(size) if size else usual


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 < value <= 0.5:
        raise ValueError(f"{text} is not a fraction above 0 and up to 0.5")
    return value


def _corner_box(place: str, side: float) -> tuple[float, float, float, float]:
    left, top = (1 - side if word in place else 0.0 for word in ("right", "bottom"))
    return left, top, left + side, top + side


def _edge_box(place: str, depth: float) -> tuple[float, float, float, float]:
    whole = {"left": 0.0, "top": 0.0, "right": 1.0, "bottom": 1.0}
    opposite = {"left": "right", "right": "left", "top": "bottom", "bottom": "top"}[place]
    whole[opposite] = depth if whole[opposite] == 1.0 else 1 - depth
    return whole["left"], whole["top"], whole["right"], whole["bottom"]
