"""THE TABLE, gradients that fill part of a tensor: the form of a gradient rule for a `Piece`, by that rule.

A row belongs to a rule and not to an operator: where a rule set has put another rule in its place, there is no row, and
the engine pads the piece with zeros. A piece rule returns what the rule itself would, as pieces where it can; None if
the piece would not be one slice of one axis any more.
"""

from __future__ import annotations

from collections.abc import Callable

from gradskip_onnx.autodiff import dims as shapes
from gradskip_onnx.autodiff.emit import Sym
from gradskip_onnx.autodiff.partial_gradients import Piece
from gradskip_onnx.types import Dims

from . import vjps, vjps_quantised, vjps_shape, vjps_spatial
from .table import Gradient, Node, Rule

Out = tuple[Gradient, ...] | None
PieceRule = Callable[[Node, Piece], Out]

PIECE_RULES: dict[Rule, PieceRule] = {}


def for_pieces(*rules: Rule) -> Callable[[PieceRule], PieceRule]:
    """Register the form for pieces of one or more gradient rules."""

    def register(rule: PieceRule) -> PieceRule:
        PIECE_RULES.update(dict.fromkeys(rules, rule))
        return rule

    return register


# Entry by entry and linear in the gradient: a rule of only *, /, - and casts is its own form for pieces.
ELEMENTWISE: tuple[Rule, ...] = (
    *(vjps.identity, vjps.add, vjps.sub, vjps.neg, vjps.sum_of, vjps.mean_of, vjps.mul, vjps.div),
    *(vjps.cast, vjps.cast_like, vjps_shape.expand),
)
PIECE_RULES.update((rule, rule) for rule in ELEMENTWISE)

# --- layout ---------------------------------------------------------------------------------------------------------


@for_pieces(vjps_shape.transpose)
def transpose(n: Node, g: Piece) -> Out:
    perm = n.attrs.get("perm", list(reversed(range(g.part.rank))))
    part = g.part.transpose([perm.index(axis) for axis in range(g.part.rank)])
    return (Piece(part, perm[g.axis], g.start, g.size),)


@for_pieces(vjps_shape.reshape)
def reshape(n: Node, g: Piece) -> Out:
    """The axis (3 d) of a piece becomes (3, d), or the reverse; None if the piece cuts a row of the new axis in two."""
    x = n.x[0]
    axis = _same_place(n.y.dims, g.axis, x.dims, g)
    size = None if axis is None else x.dims[axis]
    if axis is None or size is None:
        return None
    dims = (*x.dims[:axis], g.width * size // g.size, *x.dims[axis + 1 :])
    if dims.count(None) > 1:
        return None  # the shape at run time would be that of the whole tensor
    return n.first(Piece(g.part.reshape(dims), axis, g.start * size // g.size, size))


def _same_place(old: Dims, axis: int, new: Dims, g: Piece) -> int | None:
    """The axis of the new dimensions with as many entries before it, and so as many behind it, that keeps `g` whole.

    Entries are counted before the axis or, if their number follows the batch size, from the axis on.
    """
    before, behind = shapes.volume(old[:axis]), shapes.volume(old[axis:])
    for at, size in enumerate(new):
        same = before is not None and shapes.volume(new[:at]) == before
        same = same or (behind is not None and shapes.volume(new[at:]) == behind)
        if same and size is not None and g.start * size % g.size == g.width * size % g.size == 0:
            return at
    return None


# --- quantised tensors ----------------------------------------------------------------------------------------------


@for_pieces(vjps_quantised.quantize)
def quantize(n: Node, g: Piece) -> Out:
    return None if n.needs_gradient[1] else vjps_quantised.quantize(n, g)


@for_pieces(vjps_quantised.dequantize)
def dequantize(n: Node, g: Piece) -> Out:
    return None if n.needs_gradient[1] else vjps_quantised.dequantize(n, g)


# --- products: only the columns of the weight that belong to the piece are multiplied ---------------------------------


@for_pieces(vjps.matmul)
def matmul(n: Node, g: Piece) -> Out:
    """dA = g W[:, start:stop]^T and dW[:, start:stop] = A^T g; for rows of a product see `_rows_of_product`."""
    a, b = n.x
    if g.axis == a.rank - 2 and a.rank == g.part.rank and b.rank >= 2:
        return _rows_of_product(a, b, g)
    if a.rank < 2 or b.rank != 2 or g.axis != a.rank - 1:
        return None
    grad_a, grad_b = vjps.by_matrix(a, g.cut(b, 1), g.part)
    return grad_a, Piece(grad_b, 1, g.start, g.size)


def _rows_of_product(a: Sym, b: Sym, g: Piece) -> Out:
    """dA[start:stop] = g B^T and dB = A[start:stop]^T g: a head that reads one token needs one row of the context."""
    rows = g.cut(a, g.axis)
    grad_a, grad_b = vjps.by_matrix(rows, b, g.part) if b.rank == 2 else (g.part @ b.mT, rows.mT @ g.part)
    return g.with_part(grad_a), grad_b


@for_pieces(vjps.gemm)
def gemm(n: Node, g: Piece) -> Out:
    if g.axis != 1:
        return None
    columns = 0 if n.attrs.get("transB", 0) else 1
    grad_a, grad_b, grad_c = vjps.by_gemm(n, n.x[0], g.cut(n.x[1], columns), g.part)
    return (grad_a, Piece(grad_b, columns, g.start, g.size), g.with_part(grad_c))[: len(n.x)]


@for_pieces(vjps_quantised.matmul_integer)
def matmul_integer(n: Node, g: Piece) -> Out:
    a, b = n.x[0], n.x[1]
    if n.needs_gradient[1] or a.rank < 2 or b.rank != 2 or g.axis != a.rank - 1:
        return None
    return n.first(g.part @ g.cut(vjps_quantised.centred(n, 1, 3, -1), 1).mT)


@for_pieces(vjps_spatial.conv)
def conv(n: Node, g: Piece) -> Out:
    if g.axis != 1 or n.attrs.get("group", 1) != 1 or n.needs_gradient[1] or any(n.needs_gradient[2:]):
        return None
    return n.first(vjps_spatial.conv_to_image(n, g.part, g.cut(n.x[1], 0)))
