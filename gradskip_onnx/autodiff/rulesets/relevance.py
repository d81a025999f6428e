"""Rules that carry relevance itself instead of gradients: what arrives at an output is handed on to the inputs.

Operators that move values hand relevance on as they would a gradient. A function of one activation, a normalisation,
a weight that scales or is added keep it where it is. A gate, or the mean and the spread of a normalisation, get none.
A mean or another linear operator without weights shares it in proportion to what each input adds.
"""

from __future__ import annotations

from gradskip_onnx.autodiff.emit import Sym
from gradskip_onnx.autodiff.rules import vjps, vjps_norm, vjps_quantised, vjps_shape, vjps_spatial  # noqa: F401  (they fill the table)
from gradskip_onnx.autodiff.rules.table import VJPS, Gradient, Node, Rule, vjp
from gradskip_onnx.operators import Kind, of_kind

from .gates import carries

Out = tuple[Gradient, ...]
STABILISER = 1e-9  # Chefer's: added whatever the sign

MOVES = of_kind(Kind.MOVES) | {"Where", "MaxPool", "GlobalMaxPool"}  # these hand on one of several values
KEEPS = (
    of_kind(Kind.UNARY | Kind.NORMALISES | Kind.PROBABILITIES | Kind.QUANTISES | Kind.DEQUANTISES)
    | {"Clip", "PRelu", "Pow"}
) & set(VJPS) - of_kind(Kind.MOVES | Kind.STEPS)
SHARES = of_kind(Kind.SUMS)

RELEVANCE: dict[str, Rule] = {op: VJPS[op] for op in MOVES}


def over(a: Sym, b: Sym) -> Sym:
    """a / b, and 0 where b is 0."""
    shifted = b + STABILISER
    safe = shifted.equals(0).where(b.lift(STABILISER), shifted)
    return b.equals(0).where(b.lift(0), a / safe)


def to_signals(n: Node, shares: list[Sym]) -> Out:
    """One share for each input that carries a signal, nothing for the others."""
    given = dict(zip(carries(n), shares, strict=True))
    return tuple(given.get(index) for index in range(len(n.x)))


@vjp(*KEEPS, table=RELEVANCE)
def keep(n: Node, r: Sym, *_: Sym | None) -> Out:
    return n.first(r)


@vjp("Max", "Min", table=RELEVANCE)
def pick(n: Node, r: Sym) -> Out:
    """All to the signal, whichever bound it met; of two signals to the one that was taken."""
    return to_signals(n, [r]) if len(carries(n)) == 1 else VJPS[n.op](n, r)


@vjp(*SHARES, table=RELEVANCE)
def share(n: Node, r: Sym) -> Out:
    """R_x = x J^T (R / y)."""
    back = VJPS[n.op](n, over(r, n.y))[0]
    assert isinstance(back, Sym)  # none of these fills only part of a tensor
    return n.first(n.x[0] * back)


@vjp("Mul", "Div", table=RELEVANCE)
def scale(n: Node, r: Sym) -> Out:
    """All to the signal; two signals share it equally."""
    count = len(carries(n))
    return to_signals(n, [r if count == 1 else (1 / count) * r] * count)
