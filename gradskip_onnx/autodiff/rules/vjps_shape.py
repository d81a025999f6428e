"""THE TABLE, operators that move, join or select elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gradskip_onnx.autodiff.emit import Sym
from gradskip_onnx.autodiff.partial_gradients import Piece, total
from gradskip_onnx.errors import UnsupportedModelError

from .table import Gradient, Node, vjp

Out = tuple[Gradient, ...]

SCATTER_ADD_OPSET = 16  # the first in which ScatterElements and ScatterND can add


def fixed(n: Node, size: int | None, what: str) -> int:
    """`size`, which must not follow the batch size; else raises UnsupportedModelError."""
    if size is None:
        raise UnsupportedModelError(
            "dynamic-shape", f"{n.op} (node {n.name!r}): the gradient needs a fixed {what}; export with fixed sizes"
        )
    return size


def integers(n: Node, index: int, attribute: str, default: Sequence[int] | None = None) -> list[int] | None:
    """Constant integers from an input (newer opsets) or an attribute (older ones); None if there are none."""
    if n.x.has(index):
        value = n.value(index)
        if value is None:
            raise n.missing(f"a computed {attribute} (only a constant one)")
        return [int(number) for number in value.reshape(-1)]
    found = n.attrs.get(attribute, default)
    return None if found is None else [int(number) for number in found]


# --- layout ---------------------------------------------------------------------------------------------------------


@vjp("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def reshape(n: Node, g: Sym) -> Out:
    return n.first(g.reshape_like(n.x[0]))


@vjp("Transpose")
def transpose(n: Node, g: Sym) -> Out:
    perm = n.attrs.get("perm", list(reversed(range(g.rank))))
    return (g.transpose([perm.index(axis) for axis in range(g.rank)]),)


@vjp("Expand")
def expand(n: Node, g: Sym) -> Out:
    return n.first(g)


@vjp("Tile")
def tile(n: Node, g: Sym) -> Out:
    """Split every axis (r d) into (r, d) and sum over the repeats r."""
    repeats = integers(n, 1, "repeats") or []
    x = n.x[0]
    split = tuple(size for pair in zip(repeats, x.dims, strict=True) for size in pair)
    return n.first(g.reshape(split).sum(range(0, 2 * x.rank, 2), keepdims=False))


@vjp("DepthToSpace")
def depth_to_space(n: Node, g: Sym) -> Out:
    block = n.attrs["blocksize"]
    b, c, h, w = n.x[0].dims
    if n.attrs.get("mode", "DCR") == "DCR":
        return (g.emit.op("SpaceToDepth", g, dims=n.x[0].dims, blocksize=block),)
    depth = fixed(n, c, "channel count") // block**2
    parts = g.reshape((b, depth, h, block, w, block))
    return (parts.transpose([0, 1, 3, 5, 2, 4]).reshape_like(n.x[0]),)


@vjp("SpaceToDepth")
def space_to_depth(n: Node, g: Sym) -> Out:
    mode = n.attrs.get("mode", "DCR")
    return (g.emit.op("DepthToSpace", g, dims=n.x[0].dims, blocksize=n.attrs["blocksize"], mode=mode),)


@vjp("Trilu")
def trilu(n: Node, g: Sym) -> Out:
    return n.first(g.emit.op("Trilu", g, *list(n.x)[1:], dims=g.dims, upper=n.attrs.get("upper", 1)))


@vjp("CumSum")
def cum_sum(n: Node, g: Sym) -> Out:
    reverse, exclusive = n.attrs.get("reverse", 0), n.attrs.get("exclusive", 0)
    back = g.emit.op("CumSum", g, n.x[1], dims=g.dims, reverse=1 - reverse, exclusive=exclusive)
    return back, None


# --- joining and cutting --------------------------------------------------------------------------------------------


@vjp("Concat")
def concat(n: Node, g: Sym) -> Out:
    axis = n.attrs["axis"] % g.rank
    gradients, start = [], 0
    for x in n.x:
        stop = start + fixed(n, x.dims[axis], "size along the axis")
        gradients.append(g.cut(axis, start, stop))
        start = stop
    return tuple(gradients)


@vjp("Split")
def split(n: Node, *gs: Sym | None) -> Out:
    x = n.x[0]
    axis = n.attrs.get("axis", 0) % x.rank
    whole = fixed(n, x.dims[axis], "size along the axis")
    sizes = [fixed(n, n.emit.sym(y).dims[axis], "size along the axis") if y else 0 for y in n.ys]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    pieces = [Piece(g, axis, start, whole) for g, start in zip(gs, starts, strict=True) if g is not None]
    return n.first(total(pieces))


@vjp("Slice", note="constant bounds")
def slice_(n: Node, g: Sym) -> Out:
    x = n.x[0]
    starts, ends = integers(n, 1, "starts") or [], integers(n, 2, "ends") or []
    axes = integers(n, 3, "axes", range(len(starts))) or []
    steps = integers(n, 4, "steps", [1] * len(starts)) or []
    pieces: list[Piece] = []
    for axis, start, end, step in zip((a % x.rank for a in axes), starts, ends, steps, strict=True):
        if x.dims[axis] is None and (start, step) == (0, 1) and end >= np.iinfo(np.int32).max:
            continue  # all of an axis that follows the batch size
        if pieces:
            g = pieces.pop().whole()
        size = fixed(n, x.dims[axis], "size along the axis")
        pieces.append(place(g, axis, range(size)[slice(start, end if end >= -size else None, step)], size))
    return n.first(pieces[0] if pieces else g)


def place(g: Sym, axis: int, chosen: range, size: int) -> Piece:
    """`g` at the evenly spaced positions `chosen` along an axis of length `size`; zero elsewhere."""
    if chosen.step < 0:
        chosen = chosen[::-1]
        count = len(chosen)
        g = g.emit.op("Slice", g, *(g.emit.ints([v]) for v in (count - 1, -count - 1, axis, -1)), dims=g.dims)
    if chosen.step > 1 and len(chosen) > 1:
        # x_0, 0, .., x_1, 0, ..: widen each element to `step`, then drop the zeros after the last one
        wide = g.unsqueeze(axis + 1).pad(axis + 1, 0, chosen.step - 1)
        length = len(chosen) * chosen.step
        g = wide.reshape((*g.dims[:axis], length, *g.dims[axis + 1 :])).cut(axis, 0, length - chosen.step + 1)
    return Piece(g, axis, chosen.start, size)


@vjp("Pad", note="constant pads; constant, reflect, edge and wrap modes")
def pad(n: Node, g: Sym) -> Out:
    x = n.x[0]
    pads = integers(n, 1, "pads") or []
    axes = integers(n, 3, "axes", range(x.rank)) or []
    mode = n.attrs.get("mode", "constant")
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        if not before and not after:
            continue
        axis %= x.rank
        size = fixed(n, x.dims[axis], "size along the axis")
        if mode == "constant":
            low, high = max(before, 0), size + before + min(after, 0)
            g = g.cut(axis, low, high).pad(axis, max(-before, 0), max(-after, 0))
        else:
            source = np.pad(np.arange(size), (before, after), mode=mode)
            g = g.along(axis, np.equal.outer(source, np.arange(size)))
    return n.first(g)


# --- selecting ------------------------------------------------------------------------------------------------------


@vjp("Gather")
def gather(n: Node, g: Sym) -> Out:
    x, index = n.x[0], n.x[1]
    axis = n.attrs.get("axis", 0) % x.rank
    if axis == 0 and x.dims[0] is None and n.opset >= SCATTER_ADD_OPSET:
        wide = g.cast(np.float32) if g.dtype == np.float16 else g  # ScatterND cannot add in half precision on the CPU
        zeros, places = n.emit.zeros_like(x).cast(wide.dtype), index.cast(np.int64).unsqueeze(index.rank)
        return n.emit.op("ScatterND", zeros, places, wide, dims=x.dims, reduction="add"), None
    size = fixed(n, x.dims[axis], "size along the axis")
    if index.rank == 0:
        g = g.unsqueeze(axis)
    elif index.rank > 1:
        g = g.reshape((*x.dims[:axis], _count(n, index), *x.dims[axis + 1 :]))
    constant = n.value(1)
    rows = None if constant is None else [int(i) % size for i in constant.reshape(-1)]
    if rows and rows == list(range(rows[0], rows[0] + len(rows))):
        return Piece(g, axis, rows[0], size), None
    if rows:
        return g.along(axis, np.equal.outer(rows, range(size))), None
    return _gather_rows(g, index, axis, size), None


def _count(n: Node, index: Sym) -> int:
    return math.prod(fixed(n, size, "number of indices") for size in index.dims)


def _gather_rows(g: Sym, index: Sym, axis: int, size: int) -> Sym:
    """The gradient for indices known at run time: the product with a matrix of ones at (k, index k)."""
    emit = g.emit
    flat = index.reshape((g.dims[axis], 1)).cast(np.int64)
    positions = emit.const(np.arange(size)[None], np.int64)
    wrapped = (flat < 0).where(flat + size, flat)
    chosen = wrapped.equals(positions).cast(g.dtype)  # (indices, size)
    return g.times(axis, chosen)


@vjp("GatherElements", note="opset 16 or newer")
def gather_elements(n: Node, g: Sym) -> Out:
    return _scatter_add(n, "ScatterElements", g, axis=n.attrs.get("axis", 0)), None


@vjp("GatherND", note="opset 16 or newer; batch_dims 0")
def gather_nd(n: Node, g: Sym) -> Out:
    if n.attrs.get("batch_dims", 0):
        raise n.missing("batch_dims other than 0")
    return _scatter_add(n, "ScatterND", g), None


def _scatter_add(n: Node, op: str, g: Sym, **attrs: int) -> Sym:
    if n.opset < SCATTER_ADD_OPSET:
        raise n.missing(f"opsets below {SCATTER_ADD_OPSET}, where {op} cannot add")
    zeros = n.emit.zeros_like(n.x[0])
    return n.emit.op(op, zeros, n.x[1], g, dims=zeros.dims, reduction="add", **attrs)


@vjp("ScatterElements", note="reduction none or add")
def scatter_elements(n: Node, g: Sym) -> Out:
    axis, index = n.attrs.get("axis", 0), n.x[1]
    taken = n.emit.op("GatherElements", g, index, dims=index.dims, axis=axis)
    return _kept(n, "ScatterElements", g, axis=axis), None, taken


@vjp("ScatterND", note="reduction none or add")
def scatter_nd(n: Node, g: Sym) -> Out:
    taken = n.emit.op("GatherND", g, n.x[1], dims=n.x[2].dims)
    return _kept(n, "ScatterND", g), None, taken


def _kept(n: Node, op: str, g: Sym, **attrs: int) -> Sym:
    """The gradient of the tensor that the updates are written to: zero where they replace it."""
    reduction = n.attrs.get("reduction", "none")
    if reduction not in ("none", "add"):
        raise n.missing(f"reduction {reduction!r}")
    if reduction == "add":
        return g
    return n.emit.op(op, g, n.x[1], n.emit.zeros_like(n.x[2]), dims=g.dims, **attrs)
