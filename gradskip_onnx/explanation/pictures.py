"""The pictures of an explanation: the overlay alone, or the figure with title and legend."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from gradskip_onnx.drawing.heat_map import HeatMap
from gradskip_onnx.drawing.pictures import draw_figure, draw_overlay
from gradskip_onnx.drawing.style import PictureStyle
from gradskip_onnx.errors import unknown_name
from gradskip_onnx.images.interpolate import Box
from gradskip_onnx.output.wording import named
from gradskip_onnx.tasks import TASKS

if TYPE_CHECKING:
    from .explanation import Explanation


def read_style(given: Mapping[str, Any]) -> PictureStyle:
    """The style with the fields given; an unknown one raises InputError."""
    known = [entry.name for entry in fields(PictureStyle)]
    for name in given:
        if name not in known:
            raise unknown_name("picture option", name, known)
    return PictureStyle(**given)


def overlay_of(explanation: Explanation, image: Image.Image, style: PictureStyle) -> Image.Image:
    """The map over the image, and nothing else."""
    return draw_overlay(image, heat_map(explanation), style)


def figure_of(explanation: Explanation, image: Image.Image, style: PictureStyle) -> Image.Image:
    """The figure of an explanation."""
    return draw_figure(image, heat_map(explanation), style, caption=Path(explanation.original.name).name)


def heat_map(explanation: Explanation) -> HeatMap:
    """The map of an explanation with the words that stand above its picture."""
    target = explanation.target
    facts = (
        f"{TASKS[explanation.task].share} {target.probability:.3f}",
        f"logit {target.logit:.2f}",
        f"method {explanation.relevance.method}",
        explanation.model,
    )
    return HeatMap(explanation.map, explanation.patch, seen(explanation), title=named(target), facts=" · ".join(facts))


def seen(explanation: Explanation) -> Box:
    """The part of the image that the model saw, in its pixels; a padded input reaches beyond the image."""
    (height, width), (x0, y0, x1, y1) = explanation.geometry.image_size, explanation.geometry.box
    return max(x0, 0.0), max(y0, 0.0), min(x1, float(width)), min(y1, float(height))


def png_of(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=3)  # twice as fast as the default, files 7 % larger
    return buffer.getvalue()
