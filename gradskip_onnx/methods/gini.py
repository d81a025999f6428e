"""The Gini coefficient of attention heads: values are sorted, so it is exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..types import Array

CHUNK = 1 << 20  # values handled in float64 at a time, so that memory follows the float32 attention, not twice it


def gini_of_heads(attention: Sequence[Array]) -> Array:
    """Gini of all values of each head, (h,); equal copies of every value would not change it."""
    heads = [part.reshape(len(part), -1) for part in attention]
    return _gini(heads[0] if len(heads) == 1 else np.concatenate(heads, axis=1))


def gini_of_rows(attention: Sequence[Array]) -> Array:
    """Mean over the rows of the Gini of each row, (h,)."""
    heads = range(len(attention[0]))
    return np.array([np.concatenate([_gini(part[head]) for part in attention]).mean() for head in heads])


GINI: dict[str, Callable[[Sequence[Array]], Array]] = {"head": gini_of_heads, "row": gini_of_rows}


def _gini(values: Array) -> Array:
    """Gini of each row of (r, m), 0 for a row of zeros.

    2 sum_u u a_u / (m sum a) - (m + 1) / m = sum_u (2u - m - 1) a_u / (m sum a). The ranks of u and m + 1 - u are
    opposite, so the sum is one over pairs of (2u - m - 1) (a_u - a_(m+1-u)), u > m/2: no term is negative, so no digit
    is lost, and equal values give exactly 0.
    """
    count = values.shape[1]
    ordered, half = np.sort(values, axis=1), (count + 1) // 2
    low, high = ordered[:, : count - half], ordered[:, half:][:, ::-1]  # a_1, a_2, ... and a_m, a_(m-1), ...
    ranked, total = np.zeros(len(ordered)), ordered[:, count - half : half].sum(axis=1, dtype=np.float64)
    for part in chunks(count - half, len(ordered)):
        ranks = count - 1 - 2.0 * np.arange(part.start, part.stop)
        ranked += np.einsum("rm,m->r", np.subtract(high[:, part], low[:, part], dtype=np.float64), ranks)
        total += np.add(high[:, part], low[:, part], dtype=np.float64).sum(axis=1)
    return np.asarray(ranked / np.where(total > 0, count * total, 1.0))


def chunks(length: int, width: int) -> Iterator[slice]:
    """Slices of an axis of `length` so that a slice times `width` stays near CHUNK values."""
    step = max(1, CHUNK // width)
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))
