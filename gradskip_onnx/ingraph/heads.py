"""Head weights of `gradskip` as operators: a mixture of gradient flow and sparsity, or a quarter of the heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from gradskip_onnx.autodiff.sym import Sym
from gradskip_onnx.methods.gradskip.quartiles import EVERY, QUARTERS
from gradskip_onnx.methods.gradskip.readings import GradSkipOptions

from .attention import Attending
from .gini import GINI
from .grids import constant, no_zero

# (mixed weights, flow after the threshold), (B, h) each -> weights (B, h), not yet of sum 1
SELECT: Mapping[str, Callable[[Sym, Sym], Sym]] = {
    "flow": lambda mixed, _flow: mixed,
    "weight": lambda mixed, flow: (flow > 0).where(mixed, 0),
    "equal": lambda _mixed, flow: (flow > 0).cast(flow.dtype),
    "one": lambda mixed, _flow: _heaviest(mixed),
}
FOCUS: Mapping[str, Callable[[Attending, Sym], Sym]] = {
    "gini": lambda _attending, gini: gini,
    "entropy": lambda attending, _gini: -_entropy(attending),
}


def head_weights(attending: Attending, at_patches: Sym, options: GradSkipOptions) -> Sym:
    """omega (B, h), sum 1, from the sizes of the gradients at the patches (B, n)."""
    gini = GINI[options.gini](attending)
    flow = _threshold(_flow(attending, at_patches), options.gamma)
    sparsity = gini / (gini.sum([1]) + options.eps)
    weights = _shares(SELECT[options.select](flow * options.alpha + sparsity * (1 - options.alpha), flow))
    if options.heads == EVERY:
        return weights
    share = _membership(FOCUS[options.focus](attending, gini), QUARTERS.index(options.heads))
    kept = weights * share
    return _shares((kept.sum([1]) > 0).where(kept, share))


def _flow(attending: Attending, at_patches: Sym) -> Sym:
    """g_q = sum_i sum_j A_qij |G_j|, (B, h)."""
    received = attending.attention.sum([-2], keepdims=False)  # (B, h, [windows,] keys)
    at_keys = attending.at_keys(at_patches).squeeze(-1).unsqueeze(1)
    return (received * at_keys).sum(list(range(2, received.rank)), keepdims=False)


def _threshold(flow: Sym, gamma: float) -> Sym:
    """Heads below gamma times the strongest get 0, the rest sum 1; without any flow all are equal."""
    strongest = flow.emit.reduce("ReduceMax", flow, [1])
    kept = (flow < strongest * gamma).where(constant(flow, 0), flow)
    return (strongest > 0).where(kept / no_zero(kept.sum([1])), 1 / (flow.dims[1] or 1))


def _shares(weights: Sym) -> Sym:
    """Scaled to sum 1; all equal if they are zeros."""
    total = weights.sum([1])
    return (total > 0).where(weights / no_zero(total), 1 / (weights.dims[1] or 1))


def _heaviest(mixed: Sym) -> Sym:
    """1 at the largest weight, the first of equal ones."""
    emit = mixed.emit
    best = emit.op("ArgMax", mixed, dims=(mixed.dims[0], 1), dtype=np.int64, axis=1, keepdims=1)
    return best.equals(emit.const(np.arange(mixed.dims[1] or 0)[None], np.int64)).cast(mixed.dtype)


def _entropy(attending: Attending) -> Sym:
    """Shannon entropy of each head in nats, its values scaled to sum 1; 0 for a head of zeros."""
    A = attending.attention
    axes = list(range(2, A.rank))
    shares = A / no_zero(A.sum(axes))
    return -((shares * no_zero(shares).apply("Log")).sum(axes, keepdims=False))


def _membership(focus: Sym, quarter: int) -> Sym:
    """`quartiles.membership`: the share of each head that lies in a quarter, the most focused first."""
    count = focus.dims[1] or 0
    mine, others = focus.unsqueeze(2), focus.unsqueeze(1)
    earlier = constant(focus, np.tril(np.ones((count, count)), -1)[None])  # of equal heads the first comes first
    ahead = (others > mine).cast(focus.dtype) + mine.equals(others).cast(focus.dtype) * earlier
    rank = ahead.sum([2], keepdims=False)
    ends = ((rank + 1) * 4).apply("Min", (quarter + 1) * count)
    return (ends - (rank * 4).apply("Max", quarter * count)).apply("Max", 0) / 4
