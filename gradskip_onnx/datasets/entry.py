"""One image of a dataset and its ground truth, both read on demand, so that a dataset of any length fits in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

from gradskip_onnx.types import Array

UNLABELLED = -1  # in `areas`: a pixel whose class is unknown
Box = tuple[float, float, float, float]  # left, top, right, bottom, in pixels of the upright image


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """An image. Boxes and outline belong to the objects of its label; areas hold the class of every pixel."""

    id: str  # the same on every machine: seeds and keys of results depend on it
    read: Callable[[], Image.Image]  # upright RGB
    digest: Callable[[], str]  # changes when the image or its ground truth does
    label: int | str | None = None  # class index, or a class name that the model must know
    boxes: Callable[[tuple[int, int]], tuple[Box, ...]] | None = None  # for an image of this (height, width)
    outline: Callable[[], Array] | None = None  # (H, W) booleans
    areas: Callable[[], Array] | None = None  # (H, W) class indices, or UNLABELLED


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Entries in a fixed order, and warnings about them."""

    layout: str
    where: str
    entries: tuple[Entry, ...]
    warnings: tuple[str, ...] = ()
