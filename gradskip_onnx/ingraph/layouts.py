"""`graph.layouts.arrange` as operators: a tensor of the model in the one order of axes that methods read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradskip_onnx.autodiff.sym import Sym
from gradskip_onnx.graph.layouts import CANONICAL, axes_of
from gradskip_onnx.types import Dims


def arrange(x: Sym, layout: str, sizes: Mapping[str, int]) -> Sym:
    """Tokens as (B, n, d), attention as (B, heads, [windows,] queries, keys), the image as (B, channels, H, W).

    `sizes` are those of the letters that share an axis with the batch: windows w, heads h.
    """
    letters: list[str] = []
    dims: list[int | None] = []
    for axis, size in zip(axes_of(layout), x.dims, strict=True):
        letters += axis
        dims += [None if size is None else size // sizes[axis[1]], sizes[axis[1]]] if len(axis) == 2 else [size]
    if "b" not in letters:
        letters, dims = ["b", *letters], [1, *dims]
    order = next(word for word in CANONICAL if set(word) == set(letters))
    canonical = x.reshape(tuple(dims)).transpose([letters.index(letter) for letter in order])
    if order == "byxd":
        batch, rows, columns, width = canonical.dims
        canonical = canonical.reshape((batch, _product(rows, columns), width))
    return canonical


def _product(rows: int | None, columns: int | None) -> int | None:
    return None if rows is None or columns is None else rows * columns


def drop(x: Sym, special: tuple[int, ...], *axes: int) -> Sym:
    """`x` without the special tokens: one slice for all axes if these are at one end, which copies `x` once."""
    if not special:
        return x
    sizes, count = [x.dims[axis] or 0 for axis in axes], len(special)
    if special == tuple(range(count)):
        return _slice(x, axes, [count] * len(axes), sizes)
    if all(special == tuple(range(size - count, size)) for size in sizes):
        return _slice(x, axes, [0] * len(axes), [size - count for size in sizes])
    for axis, size in zip(axes, sizes, strict=True):
        kept = [place for place in range(size) if place not in special]
        dims = _along(x.dims, {axis: len(kept)})
        x = x.emit.op("Gather", x, x.emit.ints(kept), dims=dims, axis=axis)
    return x


def _slice(x: Sym, axes: Sequence[int], starts: Sequence[int], stops: Sequence[int]) -> Sym:
    ints = x.emit.ints
    dims = _along(x.dims, {axis: stop - start for axis, start, stop in zip(axes, starts, stops, strict=True)})
    return x.emit.op("Slice", x, ints(starts), ints(stops), ints(axes), dims=dims)


def _along(dims: Dims, sizes: Mapping[int, int]) -> Dims:
    """`dims` with other sizes along some axes."""
    return tuple(sizes.get(axis, size) for axis, size in enumerate(dims))
