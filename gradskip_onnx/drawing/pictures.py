"""The three pictures of maps: the overlay alone, a figure of one map, and a grid of several maps of one image."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

from .figure import figure, overlay, panel_size, resample
from .heat_map import HeatMap
from .style import DEFAULT_STYLE, PictureStyle


def draw_overlay(image: Image.Image, heat: HeatMap, style: PictureStyle = DEFAULT_STYLE) -> Image.Image:
    """The map over the image, and nothing else; `style.size` pixels on the longer side."""
    heat.check(image)
    size = panel_size(image.width, image.height)
    small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    return overlay(small, resample(heat.values, size), opacity=style.opacity)


def draw_figure(
    image: Image.Image, heat: HeatMap, style: PictureStyle = DEFAULT_STYLE, *, caption: str = ""
) -> Image.Image:
    """Image, overlay and, where it helps, the outlined area alone, with title and legend; `caption` names the image."""
    heat.check(image)
    if style.overlay_only:
        return draw_overlay(image, heat, style)
    return figure(image, heat.values, title=heat.title, subtitle=heat.facts, caption=caption, box=heat.box)


def draw_grid(
    image: Image.Image,
    heats: Sequence[HeatMap],
    style: PictureStyle = DEFAULT_STYLE,
    *,
    title: str = "",
    facts: str = "",
    caption: str = "",
) -> Image.Image:
    """The image and an overlay for each of several maps of it: classes or methods, each with its title and facts."""
    return draw_figure(image, heats[0], style, caption=caption or title or facts)
