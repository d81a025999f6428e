"""The kinds of cases: a table of mutators each, and how many of them a run makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import (
    cache_entries,
    images,
    model_bombs,
    model_names,
    model_same,
    model_structure,
    model_table,
    model_tensors,
    options,
    settings,
)
from .case import Case, Mutator

MODEL_ROWS = (model_bombs, model_names, model_same, model_structure, model_tensors)  # each adds to the table of models


@dataclass(frozen=True, slots=True)
class Kind:
    """Rows are taken in turn, so that every one is tried before any is tried again."""

    rows: Mapping[str, Mutator]
    share: float  # cases of this kind for each model

    def row(self, number: int) -> str:
        return tuple(self.rows)[number % len(self.rows)]


KINDS: dict[str, Kind] = {
    "models": Kind(model_table.ROWS, 1.0),
    "images": Kind(images.ROWS, 0.1),
    "settings": Kind(settings.ROWS | options.ROWS, 0.1),
    "cache": Kind(cache_entries.ROWS, 0.05),
}


def cases(counts: Mapping[str, int], seed: int) -> list[Case]:
    """The first cases of each kind, kinds mixed so that a run that is stopped has seen all of them."""
    numbered = [(number / count, kind, number) for kind, count in counts.items() for number in range(count)]
    return [Case(kind, number, seed) for _, kind, number in sorted(numbered)]


def counts(models: int, only: tuple[str, ...] = ()) -> dict[str, int]:
    """How many cases of each kind belong to this many models."""
    return {name: max(1, round(models * kind.share)) for name, kind in KINDS.items() if not only or name in only}
