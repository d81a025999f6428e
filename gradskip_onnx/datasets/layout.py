"""The type of a layout: the functions that recognise and load one form of dataset on disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .entry import Dataset


@dataclass(frozen=True, slots=True)
class DatasetRequest:
    """Where the data is; None for `split` or `synsets` leaves the choice to the layout."""

    where: str
    split: str | None = None
    synsets: Path | None = None

    @property
    def path(self) -> Path:
        return Path(self.where)


@dataclass(frozen=True, slots=True)
class Layout:
    """A row of the table; each is defined at the end of the file that reads its layout."""

    name: str
    summary: str
    truth: str
    detect: Callable[[str], bool]
    load: Callable[[DatasetRequest], Dataset]
