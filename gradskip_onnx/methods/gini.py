"""The Gini coefficient of attention heads: exact, and cheaper than sorting where there is much to sort."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..types import Array

CHUNK = 1 << 20  # values handled in float64 at a time, so that memory follows the float32 attention, not twice it
AT_ONCE = 1 << 18  # values counted at a time, so that what is looked up stays near the processor
FEW = 1 << 13  # values that are sorted faster than they are counted
MANTISSA_BITS = 23
SMALL = 2.0**-12  # of the mean
BOUND = 5e-8  # what may be lost by not sorting inside the buckets that are left unsorted


def gini_of_heads(attention: Sequence[Array]) -> Array:
    """Gini of all values of each head, (h,); equal copies of every value would not change it."""
    heads = range(len(attention[0]))
    return np.array([_gini_of(_together([part[head].reshape(-1) for part in attention])) for head in heads])


def gini_of_rows(attention: Sequence[Array]) -> Array:
    """Mean over the rows of the Gini of each row, (h,)."""
    heads = range(len(attention[0]))
    return np.array([_together([_sorted_gini(part[head]) for part in attention]).mean() for head in heads])


GINI: dict[str, Callable[[Sequence[Array]], Array]] = {"head": gini_of_heads, "row": gini_of_rows}


def _together(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _gini_of(values: Array) -> float:
    if values.dtype == np.float32 and len(values) > FEW:
        return _counted_gini(np.ascontiguousarray(values))
    return float(_sorted_gini(values[None])[0])


def _sorted_gini(values: Array) -> Array:
    """Gini of each row of (r, m), 0 for a row of zeros.

    2 sum_u u a_u / (m sum a) - (m + 1) / m = sum_u (2u - m - 1) (a_u - a_1) / (m sum a), because the ranks sum to 0;
    the right side is exactly 0 for equal values and loses no digits for nearly equal ones.
    """
    ordered = np.sort(values, axis=1)
    count = ordered.shape[1]
    total = ordered.sum(axis=1, dtype=np.float64)
    ranked = np.zeros(len(ordered))
    for part in chunks(count, len(ordered)):
        ranks = 2.0 * np.arange(part.start + 1, part.stop + 1) - count - 1
        ranked += np.einsum("rm,m->r", ordered[:, part].astype(np.float64) - ordered[:, :1], ranks)
    return np.asarray(ranked / np.where(total > 0, count * total, 1.0))


def _counted_gini(values: Array) -> float:
    """Gini of many non-negative float32 values, from counts in place of an order.

    Read as integers, such numbers keep their order, so their leading bits sort them into buckets: fine ones for large
    values, and not finer than c is for those below a small c, which is added to all. A value gets the mean rank of its
    bucket. Inside a bucket of n values at most w apart this loses at most n^2 w / 4 of sum_u (2u - m - 1) a_u, and
    w <= 2^(shift - 23) (a + c): only buckets that are too full for that are sorted.
    """
    count, total = len(values), float(values.sum(dtype=np.float64))
    if total == 0:
        return 0.0
    small = np.float32(total / count * SMALL)
    keys = (values + small).view(np.int32)
    low, top = int(keys.min()), int(keys.max())
    shift = max(0, (top - low).bit_length() - min(max(count.bit_length() - 1, 13), 16))
    _to_buckets(keys, low, shift)
    parts = [slice(start, start + AT_ONCE) for start in range(0, count, AT_ONCE)]
    size = ((top - low) >> shift) + 1
    counts = np.sum([np.bincount(keys[part], minlength=size) for part in parts], axis=0)
    upto = np.cumsum(counts)
    mean_ranks = np.subtract(2 * upto, counts + count, dtype=np.float64)  # of 2u - m - 1
    ranked = sum(float(np.einsum("i,i->", mean_ranks.take(keys[part]), values[part])) for part in parts)
    crowd = 4 * BOUND * total * 2.0 ** (MANTISSA_BITS - shift)  # of n (a + c): sum n^2 w / 4 <= BOUND m total follows
    if counts.max() * float(values.max() + small) > crowd:
        ends = np.minimum((np.arange(1, size + 1) << shift) + low, top).astype(np.int32).view(np.float32)
        crowded = counts * ends > crowd
        inside = np.sort(values[crowded.take(keys)])
        places = _to_buckets((inside + small).view(np.int32), low, shift)
        taken = np.where(crowded, counts, 0)
        skipped = (upto - counts) - (np.cumsum(taken) - taken)  # ranks below a bucket that are in no crowded one
        ranks = 2.0 * (np.arange(1, len(inside) + 1) + skipped[places]) - count - 1
        ranked += float(np.einsum("i,i->", ranks - mean_ranks[places], inside))
    return ranked / (count * total)


def _to_buckets(bits: Array, low: int, shift: int) -> Array:
    """The bucket of each value, in place."""
    bits -= low
    bits >>= shift
    return bits


def chunks(length: int, width: int) -> Iterator[slice]:
    """Slices of an axis of `length` so that a slice times `width` stays near CHUNK values."""
    step = max(1, CHUNK // width)
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))
