"""The gamma rule of LRP for signed inputs, written as a gradient: relevance is value times gradient.

For y = f(x, W) + b let P and N be the sums of the positive and of the negative contributions x W to each output, and
b+ and b- the positive and negative part of b. Relevance R = y g is shared in proportion to the contributions, of which
those with the sign of y count 1 + gamma times:

    D = y + gamma (P + b+)  where y > 0,    D = y + gamma (N + b-)  where y < 0
    R_x = x+ (S+ W[+] + S- W[-]) + x- (S+ W[-] + S- W[+]),   S = R / D,   W[+-] = W + gamma W+-

(Montavon et al. 2019, "Layer-Wise Relevance Propagation: An Overview", section 10.2.3; the form for signed inputs is
that of zennit's `Gamma`). With P + N = f(x, W), P - N = f(|x|, |W|) and W+- = (W +- |W|) / 2 this takes one product
forward and two back, and D has the sign of y:

    |D| = (1 + gamma/2) |y| + (gamma/2) (f(|x|, |W|) + |b|)
    R_x / x = (1 + gamma/2) (g |y| / |D|) W + (gamma/2) sign(x) (g y / |D|) |W|

Contributions may count from another point c than 0: x - c in place of x, b + f(c, W) in place of b, and the relevance
of an input is x - c times its gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gradskip_onnx.autodiff.emit import Sym
from gradskip_onnx.autodiff.rules.table import Gradient, Node, Rule

from .linear import REAL, Linear
from .mean_colour import of_mean_colour

STABILISER = 1e-6  # that of zennit; added to |D|


@dataclass(frozen=True, slots=True, eq=False)
class GammaRule:
    """The gamma rule at nodes where `gamma_of(node)` is not 0, and the rule `otherwise` elsewhere."""

    otherwise: Rule
    gamma_of: Callable[[Node], float]
    embedding_only: bool = False  # whether gamma is 0 everywhere but at the patch embedding
    centred: bool = False  # whether contributions count from the mean colour; for `embedding_only`

    def __call__(self, n: Node, g: Sym, *more: Sym | None) -> tuple[Gradient, ...]:
        gamma = self.gamma_of(n)
        if not gamma:
            return self.otherwise(n, g, *more)
        at = 0 if n.varies(0) else 1
        f = Linear(n, at)
        centre = _centre(f) if self.centred else None
        gradient = gamma_gradient(f, n.only_first(g, more), gamma, centre)
        return tuple(gradient if index == at else None for index in range(len(n.x)))


def after_embedding(rule: Rule | None) -> Rule | None:
    """The rule as it acts after the patch embedding: without a gamma rule that acts only there."""
    return rule.otherwise if isinstance(rule, GammaRule) and rule.embedding_only else rule


def _centre(f: Linear) -> Sym:
    """The input for the mean colour; integer convolutions, whose input is rounded, take their own mean."""
    if f.n.op in REAL:
        return f.x.mean(range(2, f.x.rank) if f.n.op == "ConvInteger" else [f.x.rank - 2]).expand_like(f.x)
    return of_mean_colour(f.n, f.at, alike=f.sees_alike)


def gamma_gradient(f: Linear, g: Sym, gamma: float, centre: Sym | None = None) -> Sym:
    """The modified gradient at x by the last equation above: R_x / x, or R_x / (x - centre)."""
    size = f.weight.apply("Abs")
    x, bias = f.x, f.bias
    if centre is not None:
        x, offset = x - centre, f.of_centre(centre)
        bias = offset if bias is None else offset + bias
    contributions = f.apply(x.apply("Abs"), size)
    if bias is not None:
        contributions = contributions + bias.apply("Abs")
    denominator = (1 + 0.5 * gamma) * f.y.apply("Abs") + (0.5 * gamma) * contributions + STABILISER
    share = f.y / denominator  # from -1 to 1
    favoured = x.sign() * f.back(g * share, size)
    return (1 + 0.5 * gamma) * f.back(g * share.apply("Abs"), f.weight) + (0.5 * gamma) * favoured
