"""The columns of an audit as arrays, and its maps on one common grid, a few at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradskip_onnx.audit.private import hidden
from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.images.interpolate import place
from gradskip_onnx.imports.optional import import_optional
from gradskip_onnx.pipeline.batch import in_batches
from gradskip_onnx.types import Array, Size

FINEST = 16  # cells of the common grid along a side: places are compared, not pixels
AT_ONCE = 512  # maps read at a time
MOST_KEPT = 50_000  # maps held for comparisons of classes: 50 MB at 16 x 16
NO_CLASS = -1
ROUNDING = 1e-9  # what differs by less, of the length of a map or of a share, is constant


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """An audit as findings read it; `explained` are the positions of images that have a map."""

    audit: Audit
    positions: Array  # (n,)
    explained: Array
    grid: Size
    resamples: int
    seed: int

    def number(self, name: str) -> Array:
        """A column as float64, NaN where it is null; truths are 0 and 1."""
        column = import_optional("pyarrow.compute", "audit").cast(self.audit.table[name], "float64")
        return np.asarray(column.to_numpy(), np.float64)

    def given(self, name: str) -> Array:
        """Whether a column has a value."""
        return ~np.asarray(self.audit.table[name].is_null().to_numpy(), bool)

    def classes(self, name: str) -> Array:
        """A column of class indices, NO_CLASS where it is null."""
        values = self.number(name)
        return np.where(np.isnan(values), NO_CLASS, values).astype(np.int64)

    def region(self, name: str, part: str) -> Array:
        """The `share` or the `area` of a region of each image, NaN where there is none."""
        compute = import_optional("pyarrow.compute", "audit")
        column = self.audit.table["regions"].combine_chunks()
        found = np.full(len(self.positions), np.nan)
        entries = compute.list_flatten(column)
        chosen = compute.equal(compute.struct_field(entries, "name"), name).to_numpy(zero_copy_only=False).astype(bool)
        images = compute.list_parent_indices(column).to_numpy()[chosen]
        found[images] = compute.struct_field(entries, part).to_numpy(zero_copy_only=False)[chosen]
        return found

    def maps(self, positions: Iterable[int]) -> Iterator[tuple[Array, Array]]:
        """Yield (positions, maps on the common grid (n, cells) float64), a few at a time."""
        for some in in_batches((int(position) for position in positions), AT_ONCE):
            maps = np.stack([on_grid(scores, self.grid).reshape(-1) for scores in self.audit.maps(some)])
            yield np.array(some), maps.astype(np.float64)

    def keep(self, parts: Iterable[Array]) -> Kept:
        """The maps at positions of several groups, read in one go."""
        positions = np.unique(np.concatenate([np.zeros(0, np.int64), *parts]))
        maps = [some.astype(np.float32) for _, some in self.maps(positions)]
        return Kept(positions, np.concatenate([np.zeros((0, self.grid[0] * self.grid[1]), np.float32), *maps]))

    def draw(self, positions: Array, most: int, purpose: int) -> Array:
        """At most so many of the positions, in order; which ones is decided by the seed and the purpose."""
        if len(positions) <= most:
            return positions
        rng = np.random.default_rng((self.seed, purpose, int(positions[0])))
        return np.sort(rng.choice(positions, most, replace=False))


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Some maps held in memory."""

    positions: Array  # (n,), rising
    maps: Array  # (n, cells) float32

    def of(self, positions: Array) -> Array:
        """The maps at positions that are kept, (n, cells) float64."""
        return np.asarray(self.maps[np.searchsorted(self.positions, positions)], np.float64)


def observe(audit: Audit, *, resamples: int, seed: int) -> Observed:
    """An audit, ready for findings; the seed decides every draw."""
    positions = np.asarray(audit.table["position"].to_numpy())
    return Observed(audit, positions, np.array(audit.explained, np.int64), _grid(audit.table), resamples, seed)


def common_names(one: Audit, other: Audit) -> tuple[list[str], list[str]]:
    """The names of the images of two audits; hashes, if one of them holds no others."""
    both = one.table["image"].to_pylist(), other.table["image"].to_pylist()
    private = [bool(audit.facts["privacy"]) for audit in (one, other)]
    if private[0] == private[1]:
        return both
    first, second = ([*names] if hashed else [*map(hidden, names)] for names, hashed in zip(both, private, strict=True))
    return first, second


def on_grid(scores: Array, grid: Size) -> Array:
    """A map (rows, columns) on another grid; shrinking averages."""
    rows, columns = scores.shape
    if (rows, columns) == grid:
        return scores
    return place(np.asarray(scores, np.float32), grid, (0, 0, grid[1], grid[0]))


def directions(maps: Array) -> Array:
    """Maps (n, cells) with mean 0 and length 1, so that a product of two is their correlation; 0 for a constant map."""
    centred = maps - maps.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    differ = lengths > ROUNDING * np.linalg.norm(maps, axis=1, keepdims=True)
    return np.asarray(np.divide(centred, lengths, out=np.zeros_like(centred), where=differ))


def distributions(maps: Array) -> Array:
    """The positive parts of maps (n, cells), each adding up to 1; zeros for a map without any."""
    positive = np.maximum(maps, 0.0)
    totals = positive.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(positive, totals, out=np.zeros_like(positive), where=totals > 0))


def _grid(table: Any) -> Size:
    """The largest grid of the maps, but no finer than FINEST."""
    sides = [table[name].drop_null().to_numpy() for name in ("map_rows", "map_columns")]
    rows, columns = (min(FINEST, int(side.max())) if len(side) else 1 for side in sides)
    return rows, columns
