"""One way in which a dataset may lie on disk: how it is recognised, and who reads it on what request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .entry import Dataset


@dataclass(frozen=True, slots=True)
class DatasetRequest:
    """Where the data is; `split` and `synsets` may be left to the layout."""

    where: str
    split: str | None = None
    synsets: Path | None = None

    @property
    def path(self) -> Path:
        return Path(self.where)


@dataclass(frozen=True, slots=True)
class Layout:
    """One row; each stands at the end of the file that reads it."""

    name: str
    summary: str
    truth: str
    detect: Callable[[str], bool]
    load: Callable[[DatasetRequest], Dataset]
