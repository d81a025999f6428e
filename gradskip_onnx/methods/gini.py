"""The Gini coefficient of attention heads: values are sorted, so it is exact; the heads of a model side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from ..types import Array
from .threads import THREADS, side_by_side

CHUNK = 1 << 20  # values handled in float64 at a time, so that memory follows the float32 attention, not twice it

Attention = Sequence[Array]  # (h, n, keys) of one block, or one such array a window
Head = tuple[int, int]  # the block, and the head in it


def gini_of_heads(blocks: Sequence[Attention]) -> list[Array]:
    """Gini of all values of each head, (h,) a block; equal copies of every value would not change it."""

    def work(heads: Sequence[Head]) -> Array:
        return _gini(np.stack([_values(blocks[block], head) for block, head in heads]))

    found = [np.empty(len(attention[0])) for attention in blocks]
    jobs, numbers = _jobs(blocks)
    for heads, values in zip(jobs, side_by_side(work, jobs, numbers), strict=True):
        for (block, head), value in zip(heads, values, strict=True):
            found[block][head] = value
    return found


def gini_of_rows(blocks: Sequence[Attention]) -> list[Array]:
    """Mean over the rows of the Gini of each row, (h,) a block."""
    return [
        np.array(
            [
                np.concatenate([_gini(part[head].copy()) for part in attention]).mean()
                for head in range(len(attention[0]))
            ]
        )
        for attention in blocks
    ]


GINI: Mapping[str, Callable[[Sequence[Attention]], list[Array]]] = {"head": gini_of_heads, "row": gini_of_rows}


def _values(attention: Attention, head: int) -> Array:
    parts = [part[head].reshape(-1) for part in attention]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _jobs(blocks: Sequence[Attention]) -> tuple[list[list[Head]], int]:
    """All heads, those of one length together, in parts that keep every thread busy, the largest first; and how many
    numbers they hold."""
    lengths: dict[int, list[Head]] = {}
    for block, attention in enumerate(blocks):
        length = sum(part[0].size for part in attention)
        lengths.setdefault(length, []).extend((block, head) for head in range(len(attention[0])))
    total = sum(length * len(heads) for length, heads in lengths.items())
    jobs = []
    for length, heads in lengths.items():
        step = max(1, total // (THREADS * max(length, 1)))
        jobs += [(length * len(part), part) for at in range(0, len(heads), step) if (part := heads[at : at + step])]
    return [part for _, part in sorted(jobs, key=lambda job: job[0], reverse=True)], total


def _gini(values: Array) -> Array:
    """Gini of each row of (r, m), 0 for a row of zeros; the values are put in order.

    2 sum_u u a_u / (m sum a) - (m + 1) / m = sum_u (2u - m - 1) a_u / (m sum a). The ranks of u and m + 1 - u are
    opposite, so the sum is one over pairs of (2u - m - 1) (a_u - a_(m+1-u)), u > m/2: no term is negative, so no digit
    is lost, and equal values give exactly 0.
    """
    count, half = values.shape[1], (values.shape[1] + 1) // 2
    values.sort(axis=1)
    low, high = values[:, : count - half], values[:, half:][:, ::-1]  # a_1, a_2, ... and a_m, a_(m-1), ...
    ranked, total = np.zeros(len(values)), np.einsum("rm->r", values, dtype=np.float64)
    for part in chunks(count - half, len(values)):
        ranks = count - 1 - 2.0 * np.arange(part.start, part.stop)
        ranked += np.einsum("rm,m->r", np.subtract(high[:, part], low[:, part], dtype=np.float64), ranks)
    return np.asarray(ranked / np.where(total > 0, count * total, 1.0))


def chunks(length: int, width: int) -> Iterator[slice]:
    """Slices of an axis of `length` so that a slice times `width` stays near CHUNK values."""
    step = max(1, CHUNK // width)
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))
