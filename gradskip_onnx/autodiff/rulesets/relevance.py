"""Rules that propagate relevance instead of gradients, from the outputs of a node to its inputs.

An operator that moves values moves relevance as it would a gradient. A function of one activation, a normalisation,
and a scaling or shift by weights pass relevance on unchanged. Gates, and the mean and spread of a normalisation, get
none. A mean, or another linear operator without weights, shares relevance in proportion to the contribution of each
input.
"""

from __future__ import annotations

from gradskip_onnx.autodiff.emit import Sym
from gradskip_onnx.autodiff.rules import vjps, vjps_norm, vjps_quantised, vjps_shape, vjps_spatial  # noqa: F401  (they fill the table)
from gradskip_onnx.autodiff.rules.table import VJPS, Gradient, Node, Rule, vjp
from gradskip_onnx.operators import Kind, of_kind

from .gates import own_signals

Out = tuple[Gradient, ...]
STABILISER = 1e-9  # that of Chefer: added to positive and negative denominators alike

MOVES = of_kind(Kind.MOVES) | {"Where", "MaxPool", "GlobalMaxPool"}  # these output one of several values
KEEPS = (
    of_kind(Kind.UNARY | Kind.NORMALISES | Kind.PROBABILITIES | Kind.QUANTISES | Kind.DEQUANTISES)
    | {"Clip", "PRelu", "Pow"}
) & set(VJPS) - of_kind(Kind.MOVES | Kind.STEPS)
SHARES = of_kind(Kind.SUMS)

RELEVANCE: dict[str, Rule] = {op: VJPS[op] for op in MOVES}


def over(a: Sym, b: Sym) -> Sym:
    """a / b, stabilised, and 0 where b is 0."""
    shifted = b + STABILISER
    safe = shifted.equals(0).where(b.lift(STABILISER), shifted)
    return b.equals(0).where(b.lift(0), a / safe)


def to_signals(n: Node, shares: list[Sym]) -> Out:
    """The result of a rule: one share per signal (`own_signals`), None for the other inputs."""
    by_position = dict(zip(own_signals(n), shares, strict=True))
    return tuple(by_position.get(index) for index in range(len(n.x)))


@vjp(*KEEPS, table=RELEVANCE)
def keep(n: Node, r: Sym, *_: Sym | None) -> Out:
    return n.first(r)


@vjp("Max", "Min", table=RELEVANCE)
def pick(n: Node, r: Sym) -> Out:
    """All relevance to a single signal, even where a constant bound wins; of several signals, to the one that wins."""
    return to_signals(n, [r]) if len(own_signals(n)) == 1 else VJPS[n.op](n, r)


@vjp(*SHARES, table=RELEVANCE)
def share(n: Node, r: Sym) -> Out:
    """R_x = x J^T (R / y)."""
    back = VJPS[n.op](n, over(r, n.y))[0]
    assert isinstance(back, Sym)  # none of these fills only part of a tensor
    return n.first(n.x[0] * back)


@vjp("Mul", "Div", table=RELEVANCE)
def scale(n: Node, r: Sym) -> Out:
    """All relevance to a single signal; two signals get half each."""
    count = len(own_signals(n))
    return to_signals(n, [r if count == 1 else (1 / count) * r] * count)
