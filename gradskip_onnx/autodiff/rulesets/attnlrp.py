"""The rules of AttnLRP and of its variants for vision transformers, written as gradients.

Relevance is value times gradient. The epsilon rule of a linear operator is then its ordinary gradient (epsilon -> 0),
and the identity rule of x F(x) the gradient through x alone. Achtibat et al. 2024, "AttnLRP: Attention-Aware
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
from .gates import in_attention, is_patch_embedding, own_signals

LINEAR = of_kind(Kind.MATRIX)
CONVOLUTIONS = of_kind(Kind.CONVOLUTION) - {"ConvTranspose"}  # it is neither patch embedding nor layer


def lrp(
    *, attention_held: bool, halves: bool, gamma_linear: float, gamma_conv: float, centred: bool = False
) -> dict[str, Rule]:
    """Overlay that holds spreads and gates constant, and attention if `attention_held`.

    With `halves`, both factors of a product of activations get half of its relevance. `centred`: contributions to the
    patch embedding count from the mean colour of the image; only without `gamma_linear`.
    """
    gammas, embedding_only = _Gammas(gamma_linear, gamma_conv), not gamma_linear
    products: dict[str, Rule] = {
        op: GammaRule(VJPS[op], gammas, embedding_only, centred) for op in LINEAR | CONVOLUTIONS
    }
    rules = SPREAD_HELD | GATES_HELD | (ATTENTION_HELD if attention_held else {}) | products
    return rules | ({op: Halved(rules[op]) for op in LINEAR | {"Mul"}} if halves else {})


@dataclass(frozen=True, slots=True, eq=False)
class Halved:
    """A rule that gives each of two multiplied activations half of the relevance; elsewhere it is `otherwise`."""

    otherwise: Rule

    def __call__(self, n: Node, g: Sym, *more: Sym | None) -> tuple[Gradient, ...]:
        return self.otherwise(n, 0.5 * g if self.halves(n) else g, *more)

    def halves(self, n: Node) -> bool:
        """Whether a node multiplies two signals; a constant gate is not counted."""
        return len(own_signals(n)) > 1


@dataclass(frozen=True, slots=True)
class _Gammas:
    """The gamma of a product: one value for the patch embedding, one for layers outside of attention, 0 elsewhere.

    As in the reference code, layers that make queries, keys, values or the output of attention have gamma 0. A 1 x 1
    convolution is a linear layer; a convolution over several places has gamma 0.
    """

    linear: float  # of linear layers
    conv: float  # of the patch embedding

    def __call__(self, n: Node) -> float:
        if n.varies(0) and n.varies(1):
            return 0.0
        if self.conv and is_patch_embedding(n):
            return self.conv
        if not self.linear or is_patch_embedding(n) or in_attention(n):
            return 0.0
        pointwise = n.op in LINEAR or (n.attrs.get("group", 1) == 1 and set(n.x[1].dims[2:]) == {1})
        return self.linear if pointwise else 0.0
