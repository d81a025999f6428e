"""Gradients that fill only part of a tensor, and are zero elsewhere.

If attention is held constant, queries and keys have no gradient, and that of a packed product of queries, keys and
values is zero in two thirds of its columns. Such a gradient is a `Piece`. It stays one on its way back as long as the
rule in force has a row in `rules/piece_rules.py`; before any other rule it is padded with zeros. Adjacent pieces are
joined by Concat instead of being padded and added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .emit import Sym
from .sym import Scalar


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A gradient that is `part` from `start` on along `axis` of a tensor, and zero elsewhere.

    Arithmetic with a tensor that broadcasts against the whole gradient reads the same entries of that tensor.
    """

    part: Sym
    axis: int
    start: int
    size: int  # of the whole tensor along the axis

    @property
    def width(self) -> int:
        return self.part.dims[self.axis] or 0

    @property
    def stop(self) -> int:
        return self.start + self.width

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.part.dtype

    def whole(self) -> Sym:
        """The gradient of the whole tensor, padded with zeros."""
        return self.part.pad(self.axis, self.start, self.size - self.stop)

    def cut(self, x: Sym, axis: int | None = None) -> Sym:
        """The entries of `x` along `axis` that belong to the piece; by default the axis that meets that of the piece.

        All of `x` if it is constant along that axis.
        """
        at = self.axis - (self.part.rank - x.rank) if axis is None else axis
        return x if at < 0 or x.dims[at] == 1 else x.cut(at, self.start, self.stop)

    def with_part(self, part: Sym) -> Piece:
        return replace(self, part=part)

    def scaled(self, factor: float) -> Piece:
        return self.with_part(self.part.scaled(factor))

    def cast(self, dtype: Any) -> Piece:
        return self.with_part(self.part.cast(dtype))

    def __neg__(self) -> Piece:
        return self.with_part(-self.part)

    def __mul__(self, other: Sym | Scalar) -> Piece:
        return self.with_part(self.part * (self.cut(other) if isinstance(other, Sym) else other))

    def __truediv__(self, other: Sym | Scalar) -> Piece:
        return self.with_part(self.part / (self.cut(other) if isinstance(other, Sym) else other))


def total(parts: Sequence[Sym | Piece]) -> Sym | Piece | None:
    """The sum of the gradients of one tensor: a piece if all of them are adjacent pieces."""
    pieces = [part for part in parts if isinstance(part, Piece)]
    terms = [part for part in parts if isinstance(part, Sym)]
    joined = [
        run
        for axis in sorted({piece.axis for piece in pieces})
        for run in _join([piece for piece in pieces if piece.axis == axis])
    ]
    if not terms and len(joined) == 1 and 0 < joined[0].width < joined[0].size:
        return joined[0]
    result: Sym | None = None
    for term in [*terms, *(run.whole() for run in joined)]:
        result = term if result is None else result + term
    return result


def _join(pieces: list[Piece]) -> list[Piece]:
    """Pieces along one axis, with adjacent ones (no gap, no overlap) joined to one."""
    runs: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda piece: piece.start):
        adjacent = next((run for run in runs if run[-1].stop == piece.start), None)
        if adjacent is None:
            runs.append([piece])
        else:
            adjacent.append(piece)
    return [_concat(run) for run in runs]


def _concat(run: list[Piece]) -> Piece:
    head = run[0]
    if len(run) == 1:
        return head
    dims = list(head.part.dims)
    dims[head.axis] = run[-1].stop - head.start
    parts = [piece.part for piece in run]
    return head.with_part(head.part.emit.op("Concat", *parts, dims=tuple(dims), axis=head.axis))
