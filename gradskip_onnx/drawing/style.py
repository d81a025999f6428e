"""The choices that a picture leaves open, the same in Python and in the command line."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from gradskip_onnx.errors import InputError

from .colours import PALETTES

SIDES = (64, 8192)  # fewest and most pixels of the longer side of a panel


@dataclass(frozen=True, slots=True)
class PictureStyle:
    """How a map is drawn; the numbers of the map are never changed by it.

    A wrong value raises InputError, which names the field, what was given and what works.
    """

    palette: str = "heat"  # colours of positive relevance; the brightest is the strongest
    opacity: float = 0.9  # how far the strongest colour covers the photograph, 0 to 1
    smoothing: float = 0.4  # standard deviation of the blur for the eye, in patches; 0: every pixel as it is
    outline: float = 0.5  # share of the positive relevance inside the line; 0: no line
    overlay_only: bool = False  # the overlay alone: no panels, title or legend
    signed: bool | None = None  # whether negative relevance is drawn; None: where it is above a tenth of all
    cutout: bool | None = None  # whether a panel shows the outlined area alone; None: where that is small
    size: int | None = None  # longer side of a panel in pixels; None: that of the image, within bounds
    numbers: bool = False  # values of the map beside the words of the legend

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            allowed, fits = _ALLOWED[entry.name]
            if not fits(value):
                raise InputError(f"picture option {entry.name}: got {value!r:.80}, allowed: {allowed}")


def _number(value: object, low: float, high: float) -> bool:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
        and low <= value <= high
    )


def _switch(value: object) -> bool:
    return isinstance(value, bool)


def _switch_or_none(value: object) -> bool:
    return value is None or isinstance(value, bool)


def _side(value: object) -> bool:
    return value is None or (isinstance(value, int) and _number(value, *SIDES))


# field -> what is allowed, in words, and its test
_ALLOWED: Mapping[str, tuple[str, Callable[[object], bool]]] = MappingProxyType(
    {
        "palette": (f"one of {', '.join(PALETTES)}", lambda value: isinstance(value, str) and value in PALETTES),
        "opacity": ("a number from 0 to 1", lambda value: _number(value, 0.0, 1.0)),
        "smoothing": ("a number of patches from 0 (off) to 4", lambda value: _number(value, 0.0, 4.0)),
        "outline": ("a share from 0 (off) to 0.99", lambda value: _number(value, 0.0, 0.99)),
        "overlay_only": ("True or False", _switch),
        "signed": ("True, False or None (where it matters)", _switch_or_none),
        "cutout": ("True, False or None (where it helps)", _switch_or_none),
        "size": (f"a whole number of pixels from {SIDES[0]} to {SIDES[1]}, or None", _side),
        "numbers": ("True or False", _switch),
    }
)

DEFAULT_STYLE = PictureStyle()
