"""Head weights of GradSkip: a mixture of gradient flow and sparsity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.types import Array


@dataclass(frozen=True, slots=True, eq=False)
class Heads:
    """Head weights of one block and the two terms they are mixed from, (h,) each."""

    weights: Array  # omega, sum 1
    flow: Array  # after the threshold, sum 1
    gini: Array
    focus: float = 0.0  # mean focus of the heads used, if `restrict` left some out


# (mixed weights, flow after the threshold), (h,) each -> weights (h,), not yet of sum 1
SELECT: Mapping[str, Callable[[Array, Array], Array]] = {
    "flow": lambda mixed, _flow: mixed,  # as printed: a head without flow keeps the weight of its sparsity
    "weight": lambda mixed, flow: np.where(flow > 0, mixed, 0.0),
    "equal": lambda _mixed, flow: np.where(flow > 0, 1.0, 0.0),
    "one": lambda mixed, _flow: np.where(np.arange(len(mixed)) == mixed.argmax(), 1.0, 0.0),
}


def weigh(
    attention: Sequence[Array],
    key_gradients: Sequence[Array],
    *,
    alpha: float,
    gamma: float,
    eps: float,
    sparsity: Array,
    select: str,
    events: Counter[str],
) -> Heads:
    """Head weights omega of attention (h, n, keys), from gradient norms at the keys (keys,) and Gini `sparsity` (h,).

    Window attention is one array per window; a head is all of its windows together. 0/0 cases are counted in `events`.
    """
    received = [part.sum(axis=1, dtype=np.float64) for part in attention]  # (h, keys)
    strength = sum(np.einsum("hk,k->h", *pair) for pair in zip(received, key_gradients, strict=True))
    flow = threshold(np.asarray(strength), gamma, events)  # g_q = sum_i sum_j A_qij |G_j|
    events["empty_heads"] += int((np.sum([sums.sum(axis=1) for sums in received], axis=0) == 0).sum())
    mixed = SELECT[select](alpha * flow + (1 - alpha) * sparsity / (sparsity.sum() + eps), flow)
    if mixed.sum() == 0:
        events["uniform_heads"] += 1
        mixed = np.ones_like(mixed)
    return Heads(weights=mixed / mixed.sum(), flow=flow, gini=sparsity)


def threshold(flow: Array, gamma: float, events: Counter[str]) -> Array:
    """Set heads below gamma times the strongest to 0 and scale the rest to sum 1; without any flow all are equal."""
    if flow.max() == 0:
        events["uniform_flow"] += 1
        return np.full_like(flow, 1 / len(flow))
    kept = np.where(flow >= gamma * flow.max(), flow, 0.0)
    return np.asarray(kept / kept.sum())
