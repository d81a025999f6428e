"""Head weights of GradSkip: gradient flow, sparsity, and their mixture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..types import Array

CHUNK = 1 << 20  # values handled in float64 at a time, so that memory follows the float32 attention, not twice it


@dataclass(frozen=True, slots=True, eq=False)
class Heads:
    """One value per head: the weights, and the two terms they were mixed from."""

    weights: Array  # omega
    flow: Array  # thresholded, sums to 1
    gini: Array


def weigh(
    attention: Sequence[Array],
    key_gradients: Sequence[Array],
    *,
    alpha: float,
    gamma: float,
    eps: float,
    gini: str,
    events: Counter[str],
) -> Heads:
    """Omega of attention (h, n, keys), from the gradient norm at each key; 0/0 cases are counted in `events`.

    Window attention comes as one array a window: a head is all of its windows together.
    """
    received = [part.sum(axis=1, dtype=np.float64) for part in attention]  # (h, keys)
    strength = sum(sums @ at_keys for sums, at_keys in zip(received, key_gradients, strict=True))
    flow = threshold(np.asarray(strength), gamma, events)  # g_q = sum_i sum_j A_qij |G_j|
    sparsity = GINI[gini](attention)
    events["empty_heads"] += int((np.sum([sums.sum(axis=1) for sums in received], axis=0) == 0).sum())
    mixed = alpha * flow + (1 - alpha) * sparsity / (sparsity.sum() + eps)
    if mixed.sum() == 0:
        events["uniform_heads"] += 1
        mixed = np.ones_like(mixed)
    return Heads(weights=mixed / mixed.sum(), flow=flow, gini=sparsity)


def threshold(flow: Array, gamma: float, events: Counter[str]) -> Array:
    """Heads below gamma times the strongest carry nothing; the rest sum to 1. No flow at all: equal for all heads."""
    if flow.max() == 0:
        events["uniform_flow"] += 1
        return np.full_like(flow, 1 / len(flow))
    kept = np.where(flow >= gamma * flow.max(), flow, 0.0)
    return np.asarray(kept / kept.sum())


def gini_of_heads(attention: Sequence[Array]) -> Array:
    """Gini of all values of each head, (h,); equal copies of every value would not change it."""
    heads = range(len(attention[0]))
    return np.array([_gini(_together([part[head].reshape(1, -1) for part in attention], axis=1))[0] for head in heads])


def gini_of_rows(attention: Sequence[Array]) -> Array:
    """Mean over the rows of the Gini of each row, (h,)."""
    heads = range(len(attention[0]))
    return np.array([_together([_gini(part[head]) for part in attention], axis=0).mean() for head in heads])


def _together(parts: Sequence[Array], axis: int) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis)


GINI: dict[str, Callable[[Sequence[Array]], Array]] = {"head": gini_of_heads, "row": gini_of_rows}


def _gini(values: Array) -> Array:
    """Exact Gini of each row of (r, m), 0 for a row of zeros.

    2 sum_u u a_u / (m sum a) - (m + 1) / m = sum_u (2u - m - 1) (a_u - a_1) / (m sum a), because the ranks sum to 0;
    the right side is exactly 0 for equal values and loses no digits for nearly equal ones.
    """
    ordered = np.sort(values, axis=1)
    count = ordered.shape[1]
    total = ordered.sum(axis=1, dtype=np.float64)
    ranked = np.zeros(len(ordered))
    for part in chunks(count, len(ordered)):
        ranks = 2.0 * np.arange(part.start + 1, part.stop + 1) - count - 1
        ranked += (ordered[:, part].astype(np.float64) - ordered[:, :1]) @ ranks
    return np.asarray(ranked / np.where(total > 0, count * total, 1.0))


def chunks(length: int, width: int) -> Iterator[slice]:
    """Slices of an axis of `length` so that a slice times `width` stays near CHUNK values."""
    step = max(1, CHUNK // width)
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))
