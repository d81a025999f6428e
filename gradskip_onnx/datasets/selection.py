"""Selects entries of a dataset: by index, one part of several, a few spread evenly."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.labels import read_text

from .entry import Dataset, DatasetSource, Entry


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters, applied in this order; the defaults select everything."""

    indices: tuple[int, ...] = ()  # positions in the dataset; none: all
    part: tuple[int, int] = (1, 1)  # (k, n): every n-th entry from the k-th on, k from 1 to n
    limit: int | None = None  # largest number of entries

    def of(self, dataset: Dataset) -> Dataset:
        """The dataset with the selected entries only; raises InputError if there are none."""
        entries = self._limited(self._listed(dataset)[self.part[0] - 1 :: self.part[1]])
        if not entries:
            raise InputError(
                f"{dataset.where}: no images left ({len(dataset.entries)} in all, layout {dataset.layout})"
            )
        return replace(dataset, entries=entries, source=self._source(dataset))

    def _source(self, dataset: Dataset) -> DatasetSource | None:
        """Where the selected entries came from; None if some had been selected before."""
        source = dataset.source
        if source is None or source != replace(source, indices=(), part=(1, 1), limit=None):
            return source if self == Selection() else None
        return replace(source, indices=self.indices, part=self.part, limit=self.limit)

    def _listed(self, dataset: Dataset) -> tuple[Entry, ...]:
        if not self.indices:
            return dataset.entries
        if max(self.indices) >= len(dataset.entries):
            raise InputError(f"index {max(self.indices)}: {dataset.where} has images 0 to {len(dataset.entries) - 1}")
        return tuple(dataset.entries[index] for index in dict.fromkeys(self.indices))

    def _limited(self, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """At most `limit` entries, spread evenly: the first ones of a dataset sorted by class would be one class."""
        if self.limit is None or self.limit >= len(entries):
            return entries
        return tuple(entries[at * len(entries) // self.limit] for at in range(self.limit))


def read_part(text: str) -> tuple[int, int]:
    """(I, N) from the text "I/N", the I-th of N parts."""
    match = re.fullmatch(r"([1-9]\d{0,5})/([1-9]\d{0,5})", text)
    if match is None or int(match[1]) > int(match[2]):
        raise InputError(f"part {text!r}: write I/N with I from 1 to N, such as 1/2")
    return int(match[1]), int(match[2])


def read_indices(path: Path) -> tuple[int, ...]:
    """Whole numbers in a text file, in any format without letters, such as a YAML list; # starts a comment."""
    text = "\n".join(line.partition("#")[0] for line in read_text(path).splitlines())
    if re.search(r"[A-Za-z.]", text) or not (found := re.findall(r"\d{1,9}", text)):
        raise InputError(f"{path}: a list of whole numbers is expected")
    return tuple(map(int, found))
