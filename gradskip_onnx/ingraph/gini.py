"""The Gini coefficient of attention heads as operators: exact by sorting, or by counting in bins with a proven bound.

With values a_1 <= ... <= a_m and S their sum, G = sum_u (2u - m - 1) a_u / (m S) = sum_ij |a_i - a_j| / (2 m S).
Sorting the attention of a ViT-B/16 costs a runtime as much as the whole gradient graph. Counting does not sort: bin b
holds the n_b values of an interval [t, t (1 + WIDTH)), their sum is S_b, and N_b values lie below it. The sum with
every value replaced by the mean of its bin is

    G' = sum_b S_b (2 N_b + n_b - m) / (m S),

which is G but for the pairs inside a bin. For such a pair |a_i - a_j| <= WIDTH min(a_i, a_j) <= WIDTH a_i, hence

    0 <= G - G' <= (WIDTH / 2) sum_b (n_b / m) (S_b / S) <= WIDTH / 2 = 8.6e-4.

The bound is reached by heads whose values are nearly all equal, within one bin; where they spread over the bins the sum
is small: on attention of ViTs the difference is about 1e-6 (tests/ingraph/test_gini.py). Values below e^-RANGE count as
equal, which changes nothing that float32 holds.
"""

from __future__ import annotations

import math

import numpy as np

from gradskip_onnx.autodiff.sym import Sym
from gradskip_onnx.types import Array

from .attention import Attending
from .grids import constant, no_zero

BINS, RANGE = 16384, 28.0  # intervals between e^-RANGE and 1 on a logarithmic scale
WIDTH = math.expm1(RANGE / (BINS - 1))  # of a bin, relative to its lower end
COUNTING_OPSET = 16  # ScatterElements adds up from here on
EXACT_COUNTS = 1 << 24  # float32 counts no further


def gini_of_heads(attending: Attending) -> Sym:
    """Gini over all values of each head, (B, h); 0 for a head of zeros."""
    A, present = attending.attention, _pairs(attending)
    count = int(present.sum()) if present is not None else math.prod(size or 0 for size in A.dims[2:])
    flat = A.reshape((*A.dims[:2], math.prod(size or 0 for size in A.dims[2:])))
    if A.emit.opset < COUNTING_OPSET or count >= EXACT_COUNTS:
        return _sorted(flat, (flat.dims[2] or 0) - np.array(count)).squeeze(-1)
    ones = constant(flat, np.ones(1) if present is None else present.ravel()[None, None])
    return _counted(flat, ones, count)


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
    count = size - absent[..., None]
    ranks = np.maximum(2 * (np.arange(1, size + 1) - absent[..., None]) - count - 1, -count)
    ranked = (ordered * constant(ordered, ranks / count)).sum([-1])
    return ranked / no_zero(ordered.sum([-1]))


def _counted(flat: Sym, ones: Sym, count: int) -> Sym:
    """G' of values (B, h, m); `ones` is 0 at values that do not count, which are 0 themselves."""
    emit = flat.emit
    dims = (*flat.dims[:2], BINS)
    logs = flat.apply("Max", math.exp(-RANGE)).apply("Log")
    bins = ((logs * ((BINS - 1) / RANGE)) + (BINS - 1)).apply("Max", 0).apply("Min", BINS - 1).cast(np.int64)
    empty = emit.zeros(flat, 2, BINS)
    sums, counts = (
        emit.op("ScatterElements", empty, bins, added, dims=dims, axis=2, reduction="add")
        for added in (flat, ones.expand_like(flat))
    )
    below = emit.op("CumSum", counts, emit.const(2, np.int64), dims=dims, exclusive=1)
    ranks = (below * 2 + counts - count) / count
    return (sums * ranks).sum([2], keepdims=False) / no_zero(sums.sum([2], keepdims=False))


GINI = {"head": gini_of_heads, "row": gini_of_rows}
