"""The legend of a picture: colours and line in words, and what else must be known to read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image

from .blocks import FAINT, INK, beside, flow, stack, text_block
from .heat_map import FINEST
from .outline import line_around
from .panels import coloured
from .style import PictureStyle
from .view import SPIKES, MapView

SHARES = {0.25: "a quarter", 0.5: "half", 0.75: "three quarters"}
BAR = (150, 13)  # width and height of the colours, in units
SAMPLE = (26, 13)  # of the piece of line
GREY = (72, 72, 72)  # a ground of medium darkness below the colours


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of a legend."""

    ends: tuple[str, str]  # left and right of the colours; empty without colours
    line: str  # what the line means; empty without one
    notes: tuple[str, ...]


def words(view: MapView, style: PictureStyle, *, several: bool = False) -> Words:
    """The texts for a view, or for `several` views of which this is the first."""
    return Words(_ends(view, style, several), _line(view, style, several), _notes(view, style, several))


def _ends(view: MapView, style: PictureStyle, several: bool) -> tuple[str, str]:
    if view.empty and not several:
        return "", ""
    low, high = ("against", "for the class") if view.signed else ("least" if view.low > 0 else "none", "more relevant")
    if style.numbers and not several:
        low, high = f"{low} ({-view.top if view.signed else view.low:.3g})", f"{high} ({view.top:.3g})"
    return low, high


def _line(view: MapView, style: PictureStyle, several: bool) -> str:
    if style.outline == 0 or not (several or view.area.any()):
        return ""
    share = SHARES.get(style.outline, f"{style.outline:.0%}")
    where = f", {view.area_share:.1%} of what the model saw" if style.numbers and not several else ""
    return f"smallest area that holds {share} of the positive relevance{where}"


def _notes(view: MapView, style: PictureStyle, several: bool) -> tuple[str, ...]:
    found = []
    if several:
        found.append("each map has its own scale")
    elif view.empty:
        found.append("nothing to draw: relevance is the same everywhere")
    else:
        if view.signed and style.outline > 0 and not view.area.any():
            found.append("no line: next to nothing speaks for the class")
        if view.nearly_even:
            found.append("nearly even: colours span small differences")
        if view.clipped:
            found.append(f"strongest {SPIKES:.1%} in one colour")
    if style.smoothing > 0:
        width = f"{style.smoothing / FINEST:.1%} of the side" if view.fine else f"{style.smoothing:g} of a patch"
        found.append(f"smoothed for the eye by {width}")
    if not view.whole:
        found.append("dark, outside the frame: cropped away, not seen by the model")
    return tuple(found)


def legend_block(views: Sequence[MapView], style: PictureStyle, width: int, unit: float) -> Image.Image:
    """The legend of one view, or of several, at most `width` pixels wide; `unit` is the pixels of a unit of length."""
    return _legend(words(views[0], style, several=len(views) > 1), views[0].signed, style, width, unit)


@lru_cache(64)  # many images have the same
def _legend(texts: Words, signed: bool, style: PictureStyle, width: int, unit: float) -> Image.Image:
    gap = round(6 * unit)
    items = []
    if texts.ends[1]:
        items.append(_bar(texts.ends, signed, style, width, unit))
    if texts.line:
        room = width - round(SAMPLE[0] * unit) - gap
        items.append(beside([_sample(unit), text_block(texts.line, room, 13 * unit, INK)], gap, centred=True))
    rows = [flow(items, width, round(22 * unit))] if items else []
    if texts.notes:
        rows.append(text_block(" · ".join(texts.notes), width, 12 * unit, FAINT))
    return stack(rows, gap)


def _bar(ends: tuple[str, str], signed: bool, style: PictureStyle, width: int, unit: float) -> Image.Image:
    """The colours as they look over a dark ground, between their two words."""
    across, down, gap = round(BAR[0] * unit), round(BAR[1] * unit), round(7 * unit)
    room = (width - across) // 2 - gap
    strengths = np.tile(np.linspace(-1.0 if signed else 0.0, 1.0, across), (down, 1))
    colours = coloured(Image.new("RGB", (across, down), GREY), strengths, signed, style)
    left, right = (text_block(end, room, 13 * unit, INK) for end in ends)
    return beside([left, colours, right], gap, centred=True)


def _sample(unit: float) -> Image.Image:
    """A piece of the line, as it looks over a dark ground."""
    across, down = round(SAMPLE[0] * unit), round(SAMPLE[1] * unit)
    area = np.zeros((down, across), bool)
    area[down // 2 :] = True
    ground, line = Image.new("RGB", (across, down), GREY), line_around(area, 2 * unit)
    return ground if line is None else line.over(ground)
