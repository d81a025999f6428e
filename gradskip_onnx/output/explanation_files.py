"""Writes the files of an explanation: figure (.png), map (.npy) and document (.json)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gradskip_onnx.drawing.heat_map import HeatMap
from gradskip_onnx.drawing.pictures import draw_figure
from gradskip_onnx.drawing.style import DEFAULT_STYLE, PictureStyle
from gradskip_onnx.explanation import Explanation
from gradskip_onnx.tasks import TASKS
from gradskip_onnx.types import Array

from .documents import Subject, document
from .folder import SUFFIXES, Folder
from .json_text import encode_json
from .wording import class_suffix, named


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """An explanation, its files (figure, map, document) and the document with their paths."""

    explanation: Explanation
    files: tuple[Path, ...]
    document: dict[str, Any]


def write_explanation(
    folder: Folder,
    stem: str,
    explanation: Explanation,
    image: Image.Image,
    subject: Subject,
    style: PictureStyle = DEFAULT_STYLE,
) -> Written:
    """Write the three files of a claimed stem. The document on disk has file names; the returned one has paths."""
    facts = document(explanation, subject)
    beside = {suffix[1:]: stem + suffix for suffix in SUFFIXES}
    contents = {
        ".png": _png(draw(explanation, image, subject, style)),
        ".npy": _npy(explanation.map),
        ".json": encode_json(facts | {"files": beside}),
    }
    files = folder.write(stem, contents)
    return Written(explanation, files, facts | {"files": {path.suffix[1:]: str(path) for path in files}})


def write_classes(
    folder: Folder,
    stem: str,
    explanations: Sequence[Explanation],
    image: Image.Image,
    subject: Subject,
    style: PictureStyle = DEFAULT_STYLE,
) -> tuple[Written, ...]:
    """Write the files of several classes of one image; the class is part of each stem, which is claimed here."""
    stems = [stem + class_suffix(explanation.target) for explanation in explanations]
    folder.claim(stems)
    return tuple(
        write_explanation(folder, name, explanation, image, subject, style)
        for name, explanation in zip(stems, explanations, strict=True)
    )


def draw(
    explanation: Explanation, image: Image.Image, subject: Subject, style: PictureStyle = DEFAULT_STYLE
) -> Image.Image:
    """The figure of an explanation."""
    return draw_figure(image, heat_map(explanation, subject), style, caption=Path(subject.image).name)


def heat_map(explanation: Explanation, subject: Subject) -> HeatMap:
    """The map of an explanation with the words that stand above its picture."""
    target = explanation.target
    facts = (
        f"{TASKS[subject.task].share} {target.probability:.3f}",
        f"logit {target.logit:.2f}",
        f"method {explanation.relevance.method}",
        subject.model,
    )
    return HeatMap(
        explanation.map, explanation.patch, explanation.geometry.box, title=named(target), facts=" · ".join(facts)
    )


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=3)  # twice as fast as the default, files 7 % larger
    return buffer.getvalue()


def _npy(values: Array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(values, dtype=np.float32), allow_pickle=False)
    return buffer.getvalue()
