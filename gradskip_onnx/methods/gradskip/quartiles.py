"""Restricts the head weights to one quarter of the heads, ranked by focus, as in the paper's ablation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gradskip_onnx.types import Array

from .heads import Heads

EVERY = "all"
QUARTERS = ("0-25", "25-50", "50-75", "75-100")  # in percent of the heads, the most focused first


def entropy(attention: Sequence[Array]) -> Array:
    """Shannon entropy of each head in nats (h,), its values scaled to sum 1; 0 for a head of zeros."""
    return np.array([_entropy([part[head] for part in attention]) for head in range(len(attention[0]))])


def _entropy(parts: Sequence[Array]) -> float:
    """-sum (a/s) log(a/s) with s = sum a."""
    total = sum(float(part.sum(dtype=np.float64)) for part in parts)
    if total == 0:
        return 0.0
    shares = (part[part > 0].astype(np.float64) / total for part in parts)
    return float(-sum((share * np.log(share)).sum() for share in shares)) + 0.0  # no -0


Focus = Callable[[Sequence[Array], Array], Array]  # attention and Gini of the heads -> focus (h,)
FOCUS: Mapping[str, Focus] = {
    "gini": lambda _attention, gini: gini,
    "entropy": lambda attention, _gini: -entropy(attention),
}


def membership(focus: Array, quarter: int) -> Array:
    """The share of each head that lies in a quarter, (h,).

    The heads are ranked, the most focused first (ties keep their order), and the ranking is cut into four equal parts.
    If their number is not a multiple of four, a cut divides a head between two quarters.
    """
    count = len(focus)
    rank = np.argsort(np.argsort(-focus, kind="stable"))
    ends = np.minimum(4 * (rank + 1), (quarter + 1) * count)
    return np.asarray(np.maximum(ends - np.maximum(4 * rank, quarter * count), 0) / 4)


def restrict(heads: Heads, attention: Sequence[Array], group: str, by: str, events: Counter[str]) -> Heads:
    """Head weights with all heads outside the quarter `group` set to 0, scaled to sum 1; adds their mean focus."""
    if group == EVERY:
        return heads
    focus = FOCUS[by](attention, heads.gini)
    share = membership(focus, QUARTERS.index(group))
    weights = heads.weights * share
    if weights.sum() == 0:
        events["uniform_heads"] += 1
        weights = share
    return replace(heads, weights=weights / weights.sum(), focus=float(share @ focus / share.sum()))
