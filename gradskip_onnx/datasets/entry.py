"""One image of a dataset and its ground truth, both read on demand, so that a dataset of any length fits in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from PIL import Image

from gradskip_onnx.images.read import Picture
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
    picture: Callable[[], Picture] | None = None  # the image as `read` gives it, with the hash of its file
    sha256: Callable[[], str] | None = None  # that hash alone, also of a file that is no image


@dataclass(frozen=True, slots=True)
class DatasetSource:
    """Where a dataset came from, so that another process can load the same."""

    where: str
    layout: str
    split: str | None = None
    synsets: str | None = None
    indices: tuple[int, ...] = ()  # of `Selection`, as `part` and `limit`
    part: tuple[int, int] = (1, 1)
    limit: int | None = None

    def facts(self) -> dict[str, Any]:
        """All fields but the address and the layout, ready for JSON."""
        return {name: value for name, value in asdict(self).items() if name not in ("where", "layout")}


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Entries in a fixed order, and warnings about them."""

    layout: str
    where: str
    entries: tuple[Entry, ...]
    warnings: tuple[str, ...] = ()
    source: DatasetSource | None = None  # None: put together by hand, and not known elsewhere
