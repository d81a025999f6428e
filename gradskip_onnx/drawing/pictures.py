"""The three pictures of maps: the overlay alone, a figure of one map, and a grid of several maps of one image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PIL import Image

from gradskip_onnx.errors import InputError

from .blocks import FAINT, INK, beside, stack, text_block, widened, with_margin
from .heat_map import HeatMap
from .legend import legend_block
from .outline import line_around, line_width
from .panels import cutout_panel, ground_of, overlay_panel, panel_size, photograph
from .style import DEFAULT_STYLE, PictureStyle
from .view import MapView, negative_matters, view_of

UNIT_SIDE = 600  # up to this size of a panel texts have 12 to 22 pixels; beyond it they grow with the panel
CELL_SIDE = 340  # longer side of a panel in a grid
NARROWEST = 400  # units; narrower panels leave too little room for the words
WIDE = 2.0  # width / height from which panels lie below each other
CUTOUT_BELOW = 0.4  # outlined area as a share of the seen part; a larger one shows little that the image does not
SHAPE = 1.6  # width / height that a grid comes near to
MARGIN, GAP = 20, 14  # units


def draw_overlay(image: Image.Image, heat: HeatMap, style: PictureStyle = DEFAULT_STYLE) -> Image.Image:
    """The map over the image, and nothing else; `style.size` pixels on the longer side."""
    heat.check(image)
    size = panel_size(image.width, image.height, style.size)
    photo, view = photograph(image, size), view_of(heat, size, style)
    return overlay_panel(ground_of(photo, view), view, style, line_around(view.area, line_width(size)))


def draw_figure(
    image: Image.Image, heat: HeatMap, style: PictureStyle = DEFAULT_STYLE, *, caption: str = ""
) -> Image.Image:
    """Image, overlay and, where it helps, the outlined area alone, with title and legend; `caption` names the image."""
    if style.overlay_only:
        return draw_overlay(image, heat, style)
    heat.check(image)
    size = panel_size(image.width, image.height, style.size)
    photo, view, unit = photograph(image, size), view_of(heat, size, style), _unit(size)
    ground, line = ground_of(photo, view), line_around(view.area, line_width(size))
    panels = [(photo, caption or "image"), (overlay_panel(ground, view, style, line), "relevance over the image")]
    if _cutout_helps(view) if style.cutout is None else style.cutout and view.area.any():
        panels.append((cutout_panel(photo, ground, view, line), "the outlined area alone"))
    cells = [_cell(panel, [(text, 13, FAINT)], unit) for panel, text in panels]
    gap = round(GAP * unit)
    body = stack(cells, gap) if photo.width > WIDE * photo.height else beside(cells, gap)
    return _page(body, heat.title, heat.facts, [view], style, unit)


def draw_grid(
    image: Image.Image,
    heats: Sequence[HeatMap],
    style: PictureStyle = DEFAULT_STYLE,
    *,
    title: str = "",
    facts: str = "",
    caption: str = "",
) -> Image.Image:
    """The image and an overlay for each of several maps of it, classes or methods, above its own title and facts.

    Each map is scaled to its own strongest value; if one has both signs, all are drawn so. `style.size` is the longer
    side of a panel.
    """
    if not heats:
        raise InputError("a grid of maps: got none, allowed: one or more maps of one image")
    for heat in heats:
        heat.check(image)
    size = panel_size(image.width, image.height, style.size or CELL_SIDE)
    photo, unit = photograph(image, size), _unit(size)
    if style.signed is None:  # maps beside each other have the same colours
        style = replace(style, signed=any(negative_matters(heat) for heat in heats))
    views = [view_of(heat, size, style) for heat in heats]
    cells = [_cell(photo, [(caption or "image", 13, FAINT)], unit)]
    for heat, view in zip(heats, views, strict=True):
        ground, line = ground_of(photo, view), line_around(view.area, line_width(size))
        overlay = overlay_panel(ground, view, style, line)
        cells.append(_cell(overlay, [(heat.title, 15, INK), (heat.facts, 12, FAINT)], unit))
    columns = min(range(1, len(cells) + 1), key=lambda count: _off_shape(cells, count))
    rows = [beside(cells[at : at + columns], round(GAP * unit)) for at in range(0, len(cells), columns)]
    return _page(stack(rows, round(GAP * unit)), title, facts, views, style, unit)


def _unit(size: tuple[int, int]) -> float:
    """Pixels of a unit of length; texts grow with large panels."""
    return max(1.0, max(size) / UNIT_SIDE)


def _cutout_helps(view: MapView) -> bool:
    return 0 < view.area_share < CUTOUT_BELOW


def _cell(panel: Image.Image, texts: Sequence[tuple[str, int, tuple[int, int, int]]], unit: float) -> Image.Image:
    """A panel with texts below it; a narrow panel gets room for them."""
    width = max(panel.width, round(NARROWEST / 3 * unit))
    blocks = [text_block(text, width, size * unit, ink, lines=3) for text, size, ink in texts if text]
    return widened(stack([panel, stack(blocks, 1)], round(6 * unit)) if blocks else panel, width)


def _off_shape(cells: Sequence[Image.Image], columns: int) -> tuple[float, int]:
    """How far a grid of so many columns is from its best shape, and how many places it leaves empty."""
    rows = -(-len(cells) // columns)
    width, height = columns * cells[0].width, rows * max(cell.height for cell in cells)
    empty = rows * columns - len(cells)
    return max(width / height / SHAPE, SHAPE * height / width) * (1 + empty / len(cells)), empty


def _page(
    body: Image.Image, title: str, facts: str, views: Sequence[MapView], style: PictureStyle, unit: float
) -> Image.Image:
    """Title and facts above the panels, the legend below them."""
    width = max(body.width, round(NARROWEST * unit))
    head = [(title, 22, INK, 2), (facts, 14, FAINT, 3)]
    above = [text_block(text, width, size * unit, ink, lines=lines) for text, size, ink, lines in head if text]
    blocks = [stack(above, round(2 * unit))] if above else []
    return with_margin(
        stack([*blocks, body, legend_block(views, style, width, unit)], round(GAP * unit)), round(MARGIN * unit)
    )
