"""The pictures of an explanation: the overlay alone, or the figure with title and legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from gradskip_onnx.drawing.heat_map import HeatMap
from gradskip_onnx.drawing.pictures import draw_figure, draw_grid, draw_overlay
from gradskip_onnx.drawing.style import PictureStyle
from gradskip_onnx.errors import InputError, unknown_name
from gradskip_onnx.images.interpolate import Box
from gradskip_onnx.output.png import encode_png
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


def side_by_side(explanations: Sequence[Explanation], **style: Any) -> Image.Image:
    """One picture of several maps of the same image: of several classes, as from `explain_likeliest`, or methods.

    `style` takes the fields of PictureStyle.
    """
    if not explanations:
        raise InputError("side_by_side: got no explanations, allowed: one or more of the same image")
    return grid_of(explanations, explanations[0].image, read_style(style))


def grid_of(explanations: Sequence[Explanation], image: Image.Image, style: PictureStyle) -> Image.Image:
    """The maps of one image side by side: of several classes or methods; what differs stands below."""
    classes = {explanation.target.index for explanation in explanations}
    methods = {explanation.relevance.method for explanation in explanations}
    first = explanations[0]
    cells = []
    for explanation in explanations:
        target, method = explanation.target, explanation.relevance.method
        name = named(target) if len(classes) > 1 else method
        share = f"{TASKS[explanation.task].share} {target.probability:.3f}"
        parts = [share] * (len(classes) > 1) + [f"method {method}"] * (len(classes) > 1 < len(methods))
        cells.append(replace(heat_map(explanation), title=name, facts=" · ".join(parts)))
    title = f"{len(classes)} classes" if len(classes) > 1 else named(first.target)
    common = [f"method {first.relevance.method}"] * (len(methods) == 1) + [first.model]
    caption = Path(first.original.name).name
    return draw_grid(image, cells, style, title=title, facts=" · ".join(common), caption=caption)


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
    return encode_png(np.asarray(image.convert("RGB")))
