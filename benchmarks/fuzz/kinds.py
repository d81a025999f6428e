"""The kinds of cases: a table of mutators each, and how many of them a run makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import cache_entries, images, settings
from . import model_bombs as _bombs  # noqa: F401 (these five add their rows to the table of models)
from . import model_names as _names  # noqa: F401
from . import model_same as _same  # noqa: F401
from . import model_structure as _structure  # noqa: F401
from . import model_table as models
from . import model_tensors as _tensors  # noqa: F401
from .case import Case, Mutator


@dataclass(frozen=True, slots=True)
class Kind:
    """Rows are taken in turn, so that every one is tried before any is tried again."""

    rows: Mapping[str, Mutator]
    share: float  # cases of this kind for each model

    def row(self, number: int) -> str:
        return tuple(self.rows)[number % len(self.rows)]


KINDS: dict[str, Kind] = {
    "models": Kind(models.ROWS, 1.0),
    "images": Kind(images.ROWS, 0.1),
    "settings": Kind(settings.ROWS, 0.1),
    "cache": Kind(cache_entries.ROWS, 0.05),
}


def cases(counts: Mapping[str, int], seed: int) -> list[Case]:
    """The first cases of each kind, kinds mixed so that a run that is stopped has seen all of them."""
    numbered = [(number / count, kind, number) for kind, count in counts.items() for number in range(count)]
    return [Case(kind, number, seed) for _, kind, number in sorted(numbered)]


def counts(models: int, only: tuple[str, ...] = ()) -> dict[str, int]:
    """How many cases of each kind belong to this many models."""
    return {name: max(1, round(models * kind.share)) for name, kind in KINDS.items() if not only or name in only}
