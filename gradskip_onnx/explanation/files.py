"""Writes the files of an explanation: figure (.png), map (.npy) and document (.json)."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from PIL import Image

from gradskip_onnx.drawing.style import DEFAULT_STYLE, PictureStyle
from gradskip_onnx.errors import InputError
from gradskip_onnx.output.atomic import make_folder, write_whole
from gradskip_onnx.output.folder import KINDS, Folder, plan_stems
from gradskip_onnx.output.json_text import encode_json
from gradskip_onnx.output.wording import class_suffix
from gradskip_onnx.types import Array
from gradskip_onnx.untrusted_files import shortened

from .document import document
from .explanation import Explanation
from .pictures import figure_of, grid_of, png_of, read_style

MapSize = Literal["image", "grid"]
MapDtype = Literal["float32", "float16"]
# What people try; `save` would take them for a part of the stem.
OTHER_SUFFIXES = {".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".svg", ".pdf", ".npz", ".csv", ".html"}


@dataclass(frozen=True, slots=True)
class FileSettings:
    """Which files an explanation becomes, and how map and figure are written."""

    kinds: tuple[str, ...] = KINDS
    map: MapSize = "image"  # the size of the original image, or the grid of `relevance.scores`
    dtype: MapDtype = "float32"
    style: PictureStyle = DEFAULT_STYLE

    def __post_init__(self) -> None:
        for name, value, allowed in (
            *(("file kind", kind, KINDS) for kind in self.kinds),
            ("map", self.map, get_args(MapSize)),
            ("dtype of the map", self.dtype, get_args(MapDtype)),
        ):
            if value not in allowed:
                raise InputError(f"{name}: got {value!r:.80}, allowed: {', '.join(allowed)}")

    def facts(self) -> dict[str, Any]:
        """What the files depend on, for documents and keys."""
        return {"kinds": sorted(self.kinds), "map": self.map, "dtype": self.dtype, "style": asdict(self.style)}


EVERY_FILE = FileSettings()


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """An explanation and the content of its files by kind, in the order of KINDS; nothing is written yet."""

    stem: str
    explanation: Explanation
    contents: Mapping[str, bytes]
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class EncodedClasses:
    """Several classes of one image, each with the class in its stem, and the picture of all of them."""

    classes: tuple[Encoded, ...]
    together: str  # stem of that picture
    picture: bytes | None  # None where it is not wanted


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """An explanation, its files in the order of KINDS, and the document with their paths."""

    explanation: Explanation
    files: tuple[Path, ...]
    document: dict[str, Any]
    grid: Path | None = None  # the picture of all classes of the image, where several were explained


def encode_explanation(
    stem: str, explanation: Explanation, image: Image.Image, settings: FileSettings = EVERY_FILE
) -> Encoded:
    """Draw the figure and encode the files of a stem; the document in them has file names."""
    facts = _facts(explanation, settings)
    return Encoded(stem, explanation, _contents(explanation, image, settings, facts, stem), facts)


def encode_classes(
    stem: str, explanations: Sequence[Explanation], image: Image.Image, settings: FileSettings = EVERY_FILE
) -> EncodedClasses:
    """Encode the files of several classes of one image, and one picture of all of them, `<stem>.top5.png`."""
    pictured = "png" in settings.kinds and not settings.style.overlay_only and len(explanations) > 1
    return EncodedClasses(
        tuple(encode_explanation(stem + class_suffix(one.target), one, image, settings) for one in explanations),
        f"{stem}.top{len(explanations)}",
        png_of(grid_of(explanations, image, settings.style)) if pictured else None,
    )


def write_explanation(folder: Folder, encoded: Encoded) -> Written:
    """Write the files of a claimed stem; the returned document has their paths."""
    files = folder.write(encoded.stem, encoded.contents)
    return Written(
        encoded.explanation, files, encoded.facts | {"files": {path.suffix[1:]: str(path) for path in files}}
    )


def write_classes(
    folder: Folder, encoded: EncodedClasses, *, again: bool = False, begin: Callable[[], None] = lambda: None
) -> tuple[Written, ...]:
    """Claim the stems of several classes and write their files; `begin` is called between the two."""
    stems = [one.stem for one in encoded.classes]
    folder.claim([*stems, *([] if encoded.picture is None else [encoded.together])], again=again)
    begin()
    written = [write_explanation(folder, one) for one in encoded.classes]
    if encoded.picture is not None:
        (grid,) = folder.write(encoded.together, {"png": encoded.picture})
        written = [replace(one, grid=grid) for one in written]
    return tuple(written)


def save(
    explanation: Explanation, path: str | os.PathLike[str], map: MapSize, dtype: MapDtype, style: Mapping[str, Any]
) -> tuple[Path, ...]:
    """Write one file by its suffix, or all three beside each other; see `Explanation.save`."""
    where, stem, kinds = _place(os.fspath(path), explanation.original.name)
    settings = FileSettings(kinds, map, dtype, read_style(style))
    facts = _facts(explanation, settings)
    # only the figure needs the pixels of the image
    image = explanation.image if "png" in kinds else None
    contents = _contents(explanation, image, settings, facts, stem)
    try:
        make_folder(where)
        for kind, content in contents.items():
            write_whole(where / f"{stem}.{kind}", content)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"output {shortened(where / stem)}: cannot be written ({reason})") from None
    return tuple(where / f"{stem}.{kind}" for kind in contents)


def _place(path: str, image: str) -> tuple[Path, str, tuple[str, ...]]:
    """Folder, stem and kinds of the files that a path names."""
    if not path:
        raise InputError("output: an empty path; give a file, a stem or a folder")
    if os.path.isdir(path) or path.endswith(("/", os.sep)):
        return Path(path), plan_stems([image])[0], KINDS
    where, name = os.path.split(path)
    stem, suffix = os.path.splitext(name)
    if suffix.lower()[1:] in KINDS:
        return Path(where), stem, (suffix.lower()[1:],)
    if suffix.lower() in OTHER_SUFFIXES:
        raise InputError(f"output {shortened(Path(path))}: no {suffix} is written; use .png, .npy, .json, or none")
    return Path(where), name, KINDS


def _contents(
    explanation: Explanation, image: Image.Image | None, settings: FileSettings, facts: dict[str, Any], stem: str
) -> dict[str, bytes]:
    """The bytes of each kind of file that is wanted, in the order of KINDS."""
    names = {kind: f"{stem}.{kind}" for kind in KINDS if kind in settings.kinds}
    make: Mapping[str, Callable[[], bytes]] = {
        "png": lambda: png_of(figure_of(explanation, image or explanation.image, settings.style)),
        "npy": lambda: _npy(explanation, settings),
        "json": lambda: encode_json(facts | {"files": names}),
    }
    return {kind: make[kind]() for kind in names}


def _facts(explanation: Explanation, settings: FileSettings) -> dict[str, Any]:
    """The document, with how the map is written."""
    facts = document(explanation)
    written = {"size": settings.map, "dtype": settings.dtype, "scale": _scale(_values(explanation, settings), settings)}
    return facts | {"map": facts["map"] | written}


def _values(explanation: Explanation, settings: FileSettings) -> Array:
    return explanation.map if settings.map == "image" else explanation.relevance.scores


def _scale(values: Array, settings: FileSettings) -> float:
    """What a stored map is multiplied by to get the map: 1, or for float16 a power of two at least the largest size.

    Relevance of single pixels may lie below 6e-8, which float16 would make zero.
    """
    if settings.dtype == "float32":
        return 1.0
    largest = float(np.abs(values).max())
    if not 0 < largest < math.inf:
        return 1.0
    return float(2.0 ** math.ceil(math.log2(largest)))


def _npy(explanation: Explanation, settings: FileSettings) -> bytes:
    values = _values(explanation, settings)
    scaled = values if settings.dtype == "float32" else values / _scale(values, settings)
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(scaled, dtype=settings.dtype), allow_pickle=False)
    return buffer.getvalue()
