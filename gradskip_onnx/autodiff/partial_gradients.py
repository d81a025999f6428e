"""Gradients that fill only part of a tensor, joined by Concat instead of being padded and added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .emit import Sym


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A gradient that is `part` from `start` on along `axis` of a tensor, and zero elsewhere."""

    part: Sym
    axis: int
    start: int
    size: int  # of the whole tensor along the axis

    @property
    def stop(self) -> int:
        width = self.part.dims[self.axis]
        return self.start + (width or 0)

    def whole(self) -> Sym:
        """The gradient of the whole tensor, padded with zeros."""
        return self.part.pad(self.axis, self.start, self.size - self.stop)


def total(parts: Sequence[Sym | Piece]) -> Sym | None:
    """The sum of the gradients of one tensor; adjacent pieces are joined instead of padded and added."""
    pieces = [part for part in parts if isinstance(part, Piece)]
    terms = [part for part in parts if isinstance(part, Sym)]
    for axis in sorted({piece.axis for piece in pieces}):
        terms += [piece.whole() for piece in _join([piece for piece in pieces if piece.axis == axis])]
    result: Sym | None = None
    for term in terms:
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
    joined = head.part.emit.op("Concat", *parts, dims=tuple(dims), axis=head.axis)
    return Piece(joined, head.axis, head.start, head.size)
