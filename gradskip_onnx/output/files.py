"""The files written for an explanation: picture, map and facts; planned first, written whole or not at all."""

from __future__ import annotations

import io
import json
import os
import platform
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from gradskip_onnx.drawing.figure import figure
from gradskip_onnx.errors import InputError
from gradskip_onnx.images.preprocess import Geometry, Preprocess
from gradskip_onnx.types import Array, Relevance, Task
from gradskip_onnx.version import __version__

FORMAT = 1
SUFFIXES = (".png", ".npy", ".json")  # the JSON is written last: where it is, the others are complete
MAX_STEM = 150  # file systems take names of 255 bytes; a class name and a suffix must fit too
MOST_SCORES = 128 * 128  # a grid of tokens is written out; a score for each pixel is what the .npy holds
SHARES: dict[Task, str] = {"classification": "probability", "segmentation": "share of pixels"}
LIBRARIES = ("numpy", "onnx", "onnx-graphsurgeon", "onnxruntime", "onnxruntime-gpu", "Pillow")


class Scored(Protocol):
    """A class with its score; see api.Candidate."""

    @property
    def index(self) -> int: ...
    @property
    def label(self) -> str: ...
    @property
    def logit(self) -> float: ...
    @property
    def probability(self) -> float: ...


class Explained(Protocol):
    """What is written about one image; see api.Explanation."""

    @property
    def map(self) -> Array: ...
    @property
    def target(self) -> Scored: ...
    @property
    def top(self) -> Sequence[Scored]: ...
    @property
    def relevance(self) -> Relevance: ...
    @property
    def preprocess(self) -> Preprocess: ...
    @property
    def geometry(self) -> Geometry: ...
    @property
    def provider(self) -> str: ...
    @property
    def model_sha256(self) -> str: ...
    @property
    def timings(self) -> Mapping[str, float]: ...
    @property
    def warnings(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class Subject:
    """What was explained: names and hashes that the explanation itself does not know."""

    model: str
    image: str
    image_sha256: str | None
    task: Task = "classification"
    score: str = "logit"
    region: str | None = None


def plan_stems(images: Sequence[Path | str]) -> tuple[str, ...]:
    """A file stem for each image, all different also where upper and lower case are the same."""
    wished = [_safe(Path(image).stem) for image in images]
    counts: dict[str, int] = {}
    for stem in wished:
        counts[stem.casefold()] = counts.get(stem.casefold(), 0) + 1
    taken = set(counts)
    stems, seen = [], set[str]()
    for stem in wished:
        number, name = 1, stem
        while name.casefold() in seen or (number > 1 and name.casefold() in taken):
            number += 1
            name = f"{stem}-{number}"
        seen.add(name.casefold())
        stems.append(name)
    return tuple(stems)


def class_suffix(candidate: Scored) -> str:
    """What tells the files of several classes of one image apart."""
    words = "" if unnamed(candidate) else re.sub(r"\W+", "_", candidate.label.split(",")[0]).strip("_")[:40]
    return f".{candidate.index}" + (f"_{words}" if words else "")


def _safe(stem: str) -> str:
    flat = "".join(c if c.isprintable() and c not in '/\\:*?"<>|' else "_" for c in stem).strip(". ")
    return flat.encode()[:MAX_STEM].decode(errors="ignore") or "image"


@dataclass(slots=True)
class Folder:
    """The output folder of one run; a name is given out once."""

    path: Path
    force: bool = False
    given: set[str] = field(default_factory=set)

    def open(self) -> None:
        """Make the folder and try to write in it, before any work is done."""
        probe = self.path / _temporary()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe.touch(exist_ok=False)
            probe.unlink()
        except OSError as error:
            raise InputError(f"output {self.path}: cannot be written to ({error.strerror or error})") from None

    def files(self, stem: str) -> tuple[Path, ...]:
        return tuple(self.path / (stem + suffix) for suffix in SUFFIXES)

    def claim(self, stems: Iterable[str]) -> None:
        """Refuse names that exist or were given out before."""
        for stem in stems:
            if stem.casefold() in self.given:
                raise InputError(f"output {self.path / stem}: two results of this run would get this name")
            clash = next((path for path in self.files(stem) if path.exists()), None)
            if clash is not None and not self.force:
                raise InputError(f"output {clash} exists; use --force to overwrite or another --output")
            self.given.add(stem.casefold())

    def write(self, stem: str, explanation: Explained, image: Image.Image, subject: Subject) -> tuple[Path, ...]:
        """The three files of a claimed name; on failure none of them is left half done."""
        paths = self.files(stem)
        facts = document(explanation, image, subject) | {"files": {p.suffix[1:]: p.name for p in paths}}
        contents = (_png(draw(explanation, image, subject)), _npy(explanation.map), encode_json(facts))
        done: list[Path] = []
        try:
            for path, content in zip(paths, contents, strict=True):
                write_whole(path, content)
                done.append(path)
        except OSError as error:
            if not self.force:
                for path in done:
                    path.unlink(missing_ok=True)
            raise InputError(f"output {self.path / stem}: cannot be written ({error.strerror or error})") from None
        return paths


def draw(explanation: Explained, image: Image.Image, subject: Subject) -> Image.Image:
    """The figure of an explanation."""
    target = explanation.target
    facts = (
        f"{SHARES[subject.task]} {target.probability:.3f}",
        f"logit {target.logit:.2f}",
        f"method {explanation.relevance.method}",
        subject.model,
    )
    return figure(
        image,
        explanation.map,
        title=named(target),
        subtitle=" · ".join(facts),
        caption=Path(subject.image).name,
        box=explanation.geometry.box,
    )


def named(entry: Scored) -> str:
    """A class as people read it."""
    return f"class {entry.index}" if unnamed(entry) else f"{entry.label} ({entry.index})"


def unnamed(entry: Scored) -> bool:
    """Whether only the number of a class is known."""
    return entry.label in ("", str(entry.index), f"class {entry.index}")


def document(explanation: Explained, image: Image.Image, subject: Subject) -> dict[str, Any]:
    """Everything known about one result, ready for JSON."""
    relevance, geometry = explanation.relevance, explanation.geometry
    return {
        "format": FORMAT,
        "model": {"file": subject.model, "sha256": explanation.model_sha256},
        "image": {
            "file": subject.image,
            "sha256": subject.image_sha256,
            "height": image.height,
            "width": image.width,
            "seen_box": list(geometry.box),
        },
        "target": candidate(explanation.target),
        "top": [candidate(entry) for entry in explanation.top],
        "task": subject.task,
        "score": subject.score,
        "region": subject.region,
        "method": relevance.method,
        "options": dict(relevance.options),
        "grid": {
            "rows": relevance.scores.shape[0],
            "columns": relevance.scores.shape[1],
            "scores": relevance.scores.tolist() if relevance.scores.size <= MOST_SCORES else None,
        },
        "map": {"min": float(explanation.map.min()), "max": float(explanation.map.max())},
        "blocks": [asdict(block) for block in relevance.blocks],
        "checks": dict(relevance.checks),
        "notes": list(relevance.notes),
        "preprocess": explanation.preprocess.as_dict(),
        "provider": explanation.provider,
        "timings": dict(explanation.timings),
        "versions": versions(),
        "warnings": list(explanation.warnings),
    }


def candidate(entry: Scored) -> dict[str, Any]:
    return {
        "index": int(entry.index),
        "label": entry.label,
        "logit": float(entry.logit),
        "probability": float(entry.probability),
    }


def versions() -> dict[str, str]:
    """The versions that made a result."""
    found = {"gradskip-onnx": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def encode_json(value: object, indent: int | None = 2) -> bytes:
    """Strict JSON in ASCII with sorted keys; a number that is not finite becomes null."""
    return (json.dumps(_plain(value), indent=indent, sort_keys=True, allow_nan=False) + "\n").encode()


def _plain(value: object) -> object:
    """NumPy and tuples as what JSON knows."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=3)  # twice as quick as the default and 7 % larger
    return buffer.getvalue()


def _npy(values: Array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(values, dtype=np.float32), allow_pickle=False)
    return buffer.getvalue()


def _temporary() -> str:
    return f".gradskip-{os.getpid()}-{secrets.token_hex(4)}.tmp"


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the target, then rename: nobody ever sees half a file."""
    temporary = path.with_name(_temporary())
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
