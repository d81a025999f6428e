"""Reads object boxes from the XML files of ImageNet (Pascal VOC format); refuses document types and entities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

from gradskip_onnx.errors import InputError
from gradskip_onnx.limits import XML_BYTES, XML_DEPTH
from gradskip_onnx.untrusted_files import read_bounded

from .entry import Box

CORNERS = ("xmin", "ymin", "xmax", "ymax")


@dataclass(frozen=True, slots=True)
class Annotation:
    """Names and boxes of the objects of an image, in pixels of `size` (height, width; None: not stated)."""

    size: tuple[float, float] | None
    objects: tuple[tuple[str, Box], ...]

    def of(self, name: str, size: tuple[int, int]) -> tuple[Box, ...]:
        """The boxes of the objects called `name`, scaled to an image of `size` (height, width)."""
        down, across = (actual / stated for actual, stated in zip(size, self.size or size, strict=True))
        boxes = [box for kind, box in self.objects if kind == name]
        return tuple((x0 * across, y0 * down, x1 * across, y1 * down) for x0, y0, x1, y1 in boxes)


def read_boxes(path: Path) -> Annotation:
    """The annotation in a file."""
    data = read_bounded(path, XML_BYTES)
    reader = _Reader(path)
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    # Entities are declared in a document type; refusing it rules out entity expansion attacks.
    parser.StartDoctypeDeclHandler = _refuse(path, "a document type")
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise InputError(f"{path}: not XML ({error})") from None
    return reader.annotation()


def _refuse(path: Path, what: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any) -> NoReturn:
        raise InputError(f"{path}: {what} is not accepted; annotations need none")

    return refuse


@dataclass(slots=True)
class _Reader:
    """Collects the size and the objects while the file is parsed, without building a tree."""

    path: Path
    places: list[str] = field(default_factory=list)  # tags of the open elements, outermost first
    texts: list[str] = field(default_factory=list)  # character data of the innermost element
    size: dict[str, str] = field(default_factory=dict)
    objects: list[dict[str, str]] = field(default_factory=list)

    def start(self, tag: str, _attributes: Any) -> None:
        self.places.append(tag)
        self.texts = []
        if len(self.places) > XML_DEPTH.amount:
            raise InputError(f"{self.path}: elements are nested deeper than {XML_DEPTH.amount}")
        if self.places[1:] == ["object"]:
            self.objects.append({})

    def text(self, words: str) -> None:
        self.texts.append(words)

    def end(self, tag: str) -> None:
        place, words = self.places[1:], "".join(self.texts).strip()
        if place[:-1] == ["size"]:
            self.size[tag] = words
        elif place == ["object", "name"] or (place[:-1] == ["object", "bndbox"] and tag in CORNERS):
            self.objects[-1][tag] = words
        self.places.pop()
        self.texts = []

    def annotation(self) -> Annotation:
        boxes = [(entry.get("name", ""), self._box(entry)) for entry in self.objects]
        size = [self._number(self.size, key) for key in ("height", "width")] if self.size else []
        return Annotation((size[0], size[1]) if size and min(size) > 0 else None, tuple(boxes))

    def _box(self, entry: dict[str, str]) -> Box:
        left, top, right, bottom = (self._number(entry, corner) for corner in CORNERS)
        return left, top, right, bottom

    def _number(self, entry: dict[str, str], key: str) -> float:
        try:
            value = float(entry[key])
        except (KeyError, ValueError):
            raise InputError(f"{self.path}: {key} is {entry.get(key)!r:.40}, a number is expected") from None
        if not -1e6 < value < 1e6:
            raise InputError(f"{self.path}: {key} is {value}, pixels of an image are expected")
        return value
