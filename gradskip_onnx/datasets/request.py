"""What a loader is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DatasetRequest:
    """Where the data is; `split` and `synsets` may be left to the layout."""

    where: str
    split: str | None = None
    synsets: Path | None = None

    @property
    def path(self) -> Path:
        return Path(self.where)
