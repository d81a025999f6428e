"""One image of a dataset and its ground truth, read when asked for: a dataset of any length costs no memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

from gradskip_onnx.types import Array

UNLABELLED = -1  # in `areas`: nobody said what the pixel shows
Box = tuple[float, float, float, float]  # left, top, right, bottom, in pixels of the upright image


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """An image; boxes and outline are those of the objects of its label, areas name the class of every pixel."""

    id: str  # the same on every machine: seeds and results hang on it
    read: Callable[[], Image.Image]  # upright RGB
    digest: Callable[[], str]  # changes when the image or its ground truth does
    label: int | str | None = None  # class index, or a class name that the model must know
    boxes: Callable[[tuple[int, int]], tuple[Box, ...]] | None = None  # of an image of this height and width
    outline: Callable[[], Array] | None = None  # (H, W) booleans
    areas: Callable[[], Array] | None = None  # (H, W) class indices, UNLABELLED where there is none


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Entries in a fixed order, and what the user should know about them."""

    layout: str
    where: str
    entries: tuple[Entry, ...]
    warnings: tuple[str, ...] = ()
