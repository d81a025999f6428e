"""The Gini coefficient of attention heads, exact (values are sorted) and computed in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from gradskip_onnx.methods.threads import side_by_side
from gradskip_onnx.types import Array

CHUNK = 1 << 18  # values converted to float64 at a time, so that no float64 copy of the whole attention is made
JOB = 1 << 18  # values sorted in one job (a larger head is one job): buffers of this size are reused by the allocator
SORTED = 4  # what to sort a value costs, in passes over it

Attention = Sequence[Array]  # of one block: one array (h, n, keys), or one per window
Head = tuple[int, int]  # position of the block, and of the head in it


def gini_of_heads(blocks: Sequence[Attention]) -> list[Array]:
    """Gini over all values of each head: one array (h,) per block. It does not change if every value is repeated."""
    lengths = [sum(part[0].size for part in attention) for attention in blocks]

    def work(heads: Sequence[Head]) -> Array:
        first = heads[0][0]
        values = np.empty((len(heads), lengths[first]), blocks[first][0].dtype)
        for row, (block, head) in zip(values, heads, strict=True):
            _fill(row, blocks[block], head)
        return gini_of_values(values)

    found = [np.empty(len(attention[0])) for attention in blocks]
    jobs = _jobs(blocks, lengths)
    numbers = sum(length * len(ginis) for length, ginis in zip(lengths, found, strict=True))
    for heads, ginis in zip(jobs, side_by_side(work, jobs, SORTED * numbers), strict=True):
        for (block, head), gini in zip(heads, ginis, strict=True):
            found[block][head] = gini
    return found


def gini_of_rows(blocks: Sequence[Attention]) -> list[Array]:
    """Mean over the rows of the Gini of each row: one array (h,) per block."""
    return [np.array([_mean_of_rows(attention, head) for head in _heads(attention)]) for attention in blocks]


def _mean_of_rows(attention: Attention, head: int) -> float:
    return float(np.concatenate([gini_of_values(part[head].copy()) for part in attention]).mean())


GINI: Mapping[str, Callable[[Sequence[Attention]], list[Array]]] = {"head": gini_of_heads, "row": gini_of_rows}


def _heads(attention: Attention) -> range:
    return range(len(attention[0]))


def _jobs(blocks: Sequence[Attention], lengths: Sequence[int]) -> list[list[Head]]:
    """All heads, grouped by length and element type; the longest come first, so that no thread ends late."""
    groups: dict[tuple[int, str], list[Head]] = {}
    for block, attention in enumerate(blocks):
        key = (lengths[block], attention[0].dtype.str)
        groups.setdefault(key, []).extend((block, head) for head in _heads(attention))
    jobs = []
    for (length, _), heads in sorted(groups.items(), reverse=True):
        step = max(1, JOB // max(length, 1))
        jobs += [heads[at : at + step] for at in range(0, len(heads), step)]
    return jobs


def _fill(row: Array, attention: Attention, head: int) -> None:
    """Write all values of a head into `row`."""
    at = 0
    for part in attention:
        values = part[head]
        row[at : at + values.size].reshape(values.shape)[...] = values
        at += values.size


def gini_of_values(values: Array) -> Array:
    """Gini of each row of values (r, m), 0 for a row of zeros; sorts the values in place.

    2 sum_u u a_u / (m sum a) - (m + 1) / m = sum_u (2u - m - 1) a_u / (m sum a). The factors of u and m + 1 - u are
    opposite numbers, so this is a sum over pairs, (2u - m - 1) (a_u - a_(m+1-u)) for u > m/2: no term is negative, so
    nothing cancels, and equal values give exactly 0. No value may be negative: their bits are sorted as integers, which
    have the same order and no NaN to look for, a tenth quicker.
    """
    count, half = values.shape[1], (values.shape[1] + 1) // 2
    values.view(f"i{values.itemsize}").sort(axis=1)
    low, high = values[:, : count - half], values[:, half:][:, ::-1]  # a_1, a_2, ... and a_m, a_(m-1), ...
    ranked, total = np.zeros(len(values)), np.einsum("rm->r", values, dtype=np.float64)
    for part in chunks(count - half, len(values)):
        ranks = count - 1 - 2.0 * np.arange(part.start, part.stop)
        ranked += np.einsum("rm,m->r", np.subtract(high[:, part], low[:, part], dtype=np.float64), ranks)
    return np.asarray(ranked / np.where(total > 0, count * total, 1.0))


def chunks(length: int, width: int) -> Iterator[slice]:
    """Slices of an axis of `length`, each of about CHUNK / width entries."""
    step = max(1, CHUNK // width)
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))
