"""Head weights of GradSkip: gradient flow, sparsity, and their mixture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.types import Array


@dataclass(frozen=True, slots=True, eq=False)
class Heads:
    """One value per head: the weights, and the two terms they were mixed from."""

    weights: Array  # omega
    flow: Array  # thresholded, sums to 1
    gini: Array
    focus: float = 0.0  # of the heads used, where not all of them are


def weigh(
    attention: Sequence[Array],
    key_gradients: Sequence[Array],
    *,
    alpha: float,
    gamma: float,
    eps: float,
    sparsity: Array,
    events: Counter[str],
) -> Heads:
    """Omega of attention (h, n, keys), from the gradient norm at each key; 0/0 cases are counted in `events`.

    Window attention comes as one array a window: a head is all of its windows together. `sparsity` is the Gini.
    """
    received = [part.sum(axis=1, dtype=np.float64) for part in attention]  # (h, keys)
    strength = sum(np.einsum("hk,k->h", *pair) for pair in zip(received, key_gradients, strict=True))
    flow = threshold(np.asarray(strength), gamma, events)  # g_q = sum_i sum_j A_qij |G_j|
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
