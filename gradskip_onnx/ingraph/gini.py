"""The Gini coefficient of attention heads as operators: exact by sorting, or by counting in bins with a proven bound.

With values a_1 <= ... <= a_m, S their sum and L_u that of the u smallest over S,

    G = sum_u (2u - m - 1) a_u / (m S) = 1 - 1/m - (2/m) sum_{u<m} L_u.

Sorting the attention of a ViT-B/16 costs a runtime as much as the whole gradient graph. Counting does not sort: B bins
of equal width h = R / (B - 1) on a logarithmic scale reach from the largest value t down to t e^-R. With n_b values in
bin b, N_b in those below, and c_b the middle of the bin,

    G' = sum_b c_b n_b (2 N_b + n_b - m) / (m sum_b c_b n_b),

the coefficient of the values c_b. They have the order of the a_i, and each is within a factor e^{h/2} of its own. A sum
of the smaller ones over all, x / (x + y), then has x and y scaled by factors whose ratio r is at most e^h, and moves by
at most (sqrt r - 1) / (sqrt r + 1) = tanh(h/4) <= h/4. Values below t e^-R count as t e^-R, which moves L_u by at most
m t e^-R / S <= m e^-R = e^-MARGIN for R = log m + MARGIN. Hence

    |G - G'| <= 2 max_u |L_u - L'_u| <= h/2 + 2 e^-MARGIN,

whatever the values: 7.1e-4 for 197 tokens, 8.9e-4 for 4,097 (`bound`). It is reached nearly by heads whose values are
almost equal, within one bin; where they spread, errors up and down cancel, the more the more values there are: on
attention of ViTs the difference is a few millionths (tests/ingraph/test_gini.py). Few values are therefore sorted.

Bins lie in columns of COLUMN: bin j of column k has c_b = C_k d_j, so that what is added up within columns are products
with two small matrices.
"""

from __future__ import annotations

import math

import numpy as np

from gradskip_onnx.autodiff.emit import Emit
from gradskip_onnx.autodiff.sym import Sym
from gradskip_onnx.types import Array

from .attention import Attending
from .grids import constant, no_zero

MARGIN = 12.0
FEW, SOME = 1 << 12, 1 << 14  # values of a head that are sorted, and those that get more bins
COUNTING_OPSET = 16  # ScatterElements adds up from here on
EXACT_IN_SINGLE = 1 << 23  # values whose ranks, up to twice their number, are whole numbers in float32
TOGETHER = 1 << 22  # values of all heads; above, heads are counted one after the other, to hold less
COLUMN = 32  # bins that are added up by one row of a product


def bound(count: int) -> float:
    """How far the coefficient of `count` values in bins is from the exact one, at most."""
    return width_of_bins(count) / 2 + 2 * math.exp(-MARGIN)


def width_of_bins(count: int) -> float:
    """h, as a logarithm."""
    return (math.log(count) + MARGIN) / (_bins(count) - 1)


def _bins(count: int) -> int:
    return 1 << (15 if count <= SOME else 14)


def gini_of_heads(attending: Attending) -> Sym:
    """Gini over all values of each head, (B, h); 0 for a head of zeros."""
    A, present = attending.attention, _pairs(attending)
    size = math.prod(side or 0 for side in A.dims[2:])
    count = size if present is None else int(present.sum())
    heads = A.dims[1] or 0
    flat = A.reshape((*A.dims[:2], size))
    if A.emit.opset < COUNTING_OPSET or count <= FEW:
        return _sorted(flat, np.array(size - count)).squeeze(-1)
    if heads * size <= TOGETHER:
        return _counted(flat, present, count)
    each = [_counted(flat.cut(1, head, head + 1), present, count) for head in range(heads)]
    return A.emit.op("Concat", *each, dims=A.dims[:2], axis=1)


def gini_of_rows(attending: Attending) -> Sym:
    """Mean over the rows of the Gini of each row, (B, h)."""
    A, present = attending.attention, attending.present
    keys = A.dims[-1] or 0
    if present is None:
        return _sorted(A, np.array(0)).squeeze(-1).mean(list(range(2, A.rank - 1)), keepdims=False)
    absent = (keys - present.sum(axis=1))[:, None]  # (windows, 1) keys that are no token
    ginis = _sorted(A, absent).squeeze(-1) * constant(A, present)
    return ginis.sum([2, 3], keepdims=False) / float(present.sum())


def _pairs(attending: Attending) -> Array | None:
    """(windows, queries, keys) 1.0 where both are tokens; None if all are."""
    present = attending.present
    return None if present is None else present[:, :, None] * present[:, None, :]


def _sorted(values: Sym, absent: Array) -> Sym:
    """Gini along the last axis, (..., 1); the smallest `absent` values are zeros that do not count."""
    emit, size = values.emit, values.dims[-1] or 0
    ordered, _ = emit.ops(
        "TopK", values, emit.ints([size]), dims=[values.dims] * 2, dtypes=[values.dtype, np.int64], axis=-1, largest=0
    )
    ranked = (ordered * _ranks(ordered, size, absent)).sum([-1])
    return ranked / no_zero(ordered.sum([-1]))


def _ranks(like: Sym, size: int, absent: Array) -> Sym:
    """(2u - m - 1) / m of the u-th of the m values that count; where all do a runtime counts, and the file does not."""
    if not absent.any():
        ends = (like.emit.const(end, like.dtype) for end in (1 - size, size, 2))
        return like.emit.op("Range", *ends, dims=(size,)) / size
    count = size - absent[..., None]
    return constant(like, np.maximum(2 * (np.arange(1, size + 1) - absent[..., None]) - count - 1, -count) / count)


def _counted(flat: Sym, present: Array | None, count: int) -> Sym:
    """G' of values (B, h, m), (B, h); `present` is 0 at values that do not count, which are 0 themselves."""
    emit, heads = flat.emit, flat.dims[:2]
    number, width = _bins(count), width_of_bins(count)
    top = no_zero(emit.reduce("ReduceMax", flat, [2])).apply("Log")
    places = flat.apply("Log") * (1 / width) + (top * (-1 / width) + (number - 1))
    bins = places.apply("Max", 0).cast(np.int32)
    ones = emit.const(np.ones(1) if present is None else present.ravel()[None, None], np.int32).expand_like(flat)
    table = emit.zeros(ones, 2, number)
    counts = emit.op("ScatterElements", table, bins, ones, dims=table.dims, axis=2, reduction="add")
    exact = np.float32 if count <= EXACT_IN_SINGLE else np.float64
    n = counts.cast(exact).reshape((*heads, number // COLUMN, COLUMN))
    starts, steps = _middles(emit, number, width, exact)
    pairs = (n @ (_below(emit, exact) * steps) * n).sum([3])  # of one column
    weighed = n @ steps.mT
    ranked = starts * (pairs + weighed * (_exclusive(n.sum([3])) * 2 - count))
    return (ranked.sum([2, 3], False) / ((starts * weighed).sum([2, 3], False) * count)).cast(flat.dtype)


def _below(emit: Emit, dtype: type) -> Sym:
    """(COLUMN, COLUMN): 2 for an earlier bin of a column, 1 for the bin itself."""
    places = np.arange(COLUMN)
    rows, columns = emit.const(places[:, None], np.int64), emit.const(places[None], np.int64)
    return (rows < columns).cast(dtype) * 2 + rows.equals(columns).cast(dtype)


def _exclusive(sums: Sym) -> Sym:
    """(B, h, columns, 1): what lies in the columns before."""
    return sums.emit.op("CumSum", sums, sums.emit.const(2, np.int64), dims=sums.dims, exclusive=1)


def _middles(emit: Emit, number: int, width: float, dtype: type) -> tuple[Sym, Sym]:
    """c_b / t = C_k d_j of bin j of column k: C (columns, 1) and d (1, COLUMN), formulas until a runtime loads them."""
    columns = emit.const(np.arange(0, number, COLUMN)[:, None], np.float64) - (number - 1.5)
    bins = emit.const(np.arange(COLUMN)[None], np.float64)
    starts, steps = ((places * width).apply("Exp").cast(dtype) for places in (columns, bins))
    return starts, steps


GINI = {"head": gini_of_heads, "row": gini_of_rows}
