"""The Gini coefficient of attention heads: values are sorted, so it is exact; the heads of a model side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..types import Array
from .threads import THREADS, side_by_side

CHUNK = 1 << 20  # values handled in float64 at a time, so that memory follows the float32 attention, not twice it

Attention = Sequence[Array]  # (h, n, keys) of one block, or one such array a window
Head = tuple[int, int]  # the block, and the head in it


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Some heads of one length, and room for their values and for differences of those."""

    heads: Sequence[Head]
    values: Array  # (heads, length)
    room: Array


def gini_of_heads(blocks: Sequence[Attention]) -> list[Array]:
    """Gini of all values of each head, (h,) a block; equal copies of every value would not change it."""

    def work(job: Job) -> Array:
        for row, (block, head) in zip(job.values, job.heads, strict=True):
            _fill(row, blocks[block], head)
        return _gini(job.values, job.room)

    found = [np.empty(len(attention[0])) for attention in blocks]
    jobs = _jobs(blocks)
    for job, ginis in zip(jobs, side_by_side(work, jobs, sum(job.values.size for job in jobs)), strict=True):
        for (block, head), gini in zip(job.heads, ginis, strict=True):
            found[block][head] = gini
    return found


def gini_of_rows(blocks: Sequence[Attention]) -> list[Array]:
    """Mean over the rows of the Gini of each row, (h,) a block."""
    return [
        np.array(
            [np.mean(np.concatenate([_of_each_row(part[head]) for part in attention])) for head in _heads(attention)]
        )
        for attention in blocks
    ]


def _of_each_row(values: Array) -> Array:
    return _gini(values.copy(), _room(values.shape))


GINI: Mapping[str, Callable[[Sequence[Attention]], list[Array]]] = {"head": gini_of_heads, "row": gini_of_rows}


def _heads(attention: Attention) -> range:
    return range(len(attention[0]))


def _fill(row: Array, attention: Attention, head: int) -> None:
    """All values of a head, one after the other."""
    at = 0
    for part in attention:
        values = part[head]
        row[at : at + values.size].reshape(values.shape)[...] = values
        at += values.size


def _jobs(blocks: Sequence[Attention]) -> list[Job]:
    """All heads, those of one length together, in parts that keep every thread busy; the largest first."""
    lengths: dict[int, list[Head]] = {}
    for block, attention in enumerate(blocks):
        length = sum(part[0].size for part in attention)
        lengths.setdefault(length, []).extend((block, head) for head in _heads(attention))
    total = sum(length * len(heads) for length, heads in lengths.items())
    dtype = np.result_type(*(part.dtype for attention in blocks for part in attention)) if blocks else np.float32
    jobs = []
    for length, heads in lengths.items():
        step = max(1, total // (THREADS * max(length, 1)))
        for some in (heads[at : at + step] for at in range(0, len(heads), step)):
            shape = (len(some), length)
            jobs.append(Job(some, np.empty(shape, dtype), _room(shape)))
    return sorted(jobs, key=lambda job: job.values.size, reverse=True)


def _room(shape: tuple[int, ...]) -> Array:
    rows, length = shape
    return np.empty(max(rows, min(rows * (length // 2), CHUNK)))


def _gini(values: Array, room: Array) -> Array:
    """Gini of each row of (r, m), 0 for a row of zeros; the values are put in order.

    2 sum_u u a_u / (m sum a) - (m + 1) / m = sum_u (2u - m - 1) a_u / (m sum a). The ranks of u and m + 1 - u are
    opposite, so the sum is one over pairs of (2u - m - 1) (a_u - a_(m+1-u)), u > m/2: no term is negative, so no digit
    is lost, and equal values give exactly 0.
    """
    rows, count = values.shape
    half = (count + 1) // 2
    values.sort(axis=1)
    low, high = values[:, : count - half], values[:, half:][:, ::-1]  # a_1, a_2, ... and a_m, a_(m-1), ...
    ranked, total = np.zeros(rows), np.einsum("rm->r", values, dtype=np.float64)
    for part in chunks(count - half, rows):
        gaps = room[: rows * (part.stop - part.start)].reshape(rows, -1)
        np.subtract(high[:, part], low[:, part], out=gaps, dtype=np.float64)
        ranked += np.einsum("rm,m->r", gaps, count - 1 - 2.0 * np.arange(part.start, part.stop))
    return np.asarray(ranked / np.where(total > 0, count * total, 1.0))


def chunks(length: int, width: int) -> Iterator[slice]:
    """Slices of an axis of `length` so that a slice times `width` stays near CHUNK values."""
    step = max(1, CHUNK // width)
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))
