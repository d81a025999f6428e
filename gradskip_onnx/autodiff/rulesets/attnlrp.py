"""The rules of AttnLRP and of the forms of LRP for vision transformers built on it, as gradients.

Relevance is value times gradient, so that the epsilon rule of a linear operator is its ordinary gradient (epsilon to
0) and the identity rule of x F(x) a gradient through x alone. Achtibat et al. 2024, "AttnLRP: Attention-Aware
Layer-Wise Relevance Propagation for Transformers"; Bakish et al. 2025, "Revisiting LRP: Positional Attribution as the
Missing Ingredient for Transformer Explainability".
"""

from __future__ import annotations

from dataclasses import dataclass

from gradskip_onnx.autodiff.emit import Sym
from gradskip_onnx.autodiff.rules.table import VJPS, Gradient, Node, Rule
from gradskip_onnx.operators import Kind, of_kind

from .conservative import ATTENTION_HELD, GATES_HELD, SPREAD_HELD
from .gamma_rule import GammaRule
from .gates import carries, embeds, in_attention

LINEAR = of_kind(Kind.MATRIX)
CONVOLUTIONS = of_kind(Kind.CONVOLUTION) - {"ConvTranspose"}  # which makes no patches, and is no layer of its own


def lrp(*, attention_held: bool, halves: bool, gamma_linear: float, gamma_conv: float) -> dict[str, Rule]:
    """The overlay: norms and gates held, attention held or not, products of two activations halved or not."""
    gammas, near = _Gammas(gamma_linear, gamma_conv), not gamma_linear
    products: dict[str, Rule] = {op: GammaRule(VJPS[op], gammas, near) for op in LINEAR | CONVOLUTIONS}
    rules = SPREAD_HELD | GATES_HELD | (ATTENTION_HELD if attention_held else {}) | products
    return rules | ({op: halved(rules[op]) for op in LINEAR | {"Mul"}} if halves else {})


def halved(rule: Rule) -> Rule:
    """Two activations that are multiplied get half of the relevance each; a gate that is held counts as none."""

    def half(n: Node, g: Sym, *more: Sym | None) -> tuple[Gradient, ...]:
        return rule(n, 0.5 * g if len(carries(n)) > 1 else g, *more)

    return half


@dataclass(frozen=True, slots=True)
class _Gammas:
    """Which gamma a product gets: one for the patch embedding, one for layers outside of attention, 0 elsewhere.

    The layers inside are those of the reference code's attention module, which the gamma rule does not reach. 1 x 1
    convolutions are layers like any other; convolutions that mix places get the plain rule.
    """

    linear: float
    conv: float

    def __call__(self, n: Node) -> float:
        if n.varies(0) and n.varies(1):
            return 0.0
        if self.conv and embeds(n):
            return self.conv
        if not self.linear or embeds(n) or in_attention(n):
            return 0.0
        pointwise = n.op in LINEAR or (n.attrs.get("group", 1) == 1 and set(n.x[1].dims[2:]) == {1})
        return self.linear if pointwise else 0.0
