"""Rules that hold gates constant, so that input times gradient adds up to the score wherever there is no bias.

Attention weights and the spread that a normalisation divides by are constants (Ali et al. 2022, "XAI for
Transformers: Better Explanations through Conservative Propagation", section 4), and so is the factor F(x) of
GELU = x F(x). What is left of the network is linear in its input.
"""

from __future__ import annotations

from gradskip_onnx.autodiff.emit import Sym
from gradskip_onnx.autodiff.rules import Gradient, Node, Rule, vjp
from gradskip_onnx.autodiff.vjps import normal_cdf, stop
from gradskip_onnx.autodiff.vjps_norm import statistics, widened

Out = tuple[Gradient, ...]

CONSERVATIVE: dict[str, Rule] = {}

# Softmax: the attention weights. Sqrt: the standard deviation of a normalisation written out. Erf: the gate of a GELU
# written out, x (1 + erf(x / sqrt 2)) / 2.
vjp("Softmax", "Sqrt", "Erf", table=CONSERVATIVE)(stop)


@vjp("LayerNormalization", table=CONSERVATIVE)
def layer_norm(n: Node, g: Sym, *more: Sym | None) -> Out:
    """dx = q - mean(q) with q = g scale / std."""
    g = n.only_first(g, more)
    x = n.x[0]
    axes = range(n.attrs.get("axis", -1) % x.rank, x.rank)
    centred, inverse = statistics(x, axes, n.attrs.get("epsilon", 1e-5))
    q = widened(g * n.x[1]) * inverse
    return ((q - q.mean(axes)).cast(x.dtype), g * (centred * inverse).cast(x.dtype), g)[: len(n.x)]


@vjp("RMSNormalization", table=CONSERVATIVE)
def rms_norm(n: Node, g: Sym) -> Out:
    """dx = g scale / rms."""
    x = widened(n.x[0])
    axes = range(n.attrs.get("axis", -1) % x.rank, x.rank)
    inverse = ((x * x).mean(axes) + n.attrs.get("epsilon", 1e-5)).apply("Sqrt").apply("Reciprocal")
    return (widened(g * n.x[1]) * inverse).cast(n.x[0].dtype), g * (x * inverse).cast(g.dtype)


@vjp("Gelu", table=CONSERVATIVE)
def gelu(n: Node, g: Sym) -> Out:
    """dx = g F(x)."""
    if n.attrs.get("approximate", "none") == "tanh":
        raise n.missing("the tanh approximation in the conservative rule set")
    return (g * normal_cdf(n.x[0]),)


@vjp("Sigmoid", table=CONSERVATIVE)
def sigmoid(n: Node, g: Sym) -> Out:
    """The gate of SiLU = x sigmoid(x) is held; as an activation of its own it has no linear part to keep."""
    gates = [node for node in n.y.tensor.outputs if node.op == "Mul"]
    if not gates:
        raise n.missing("a sigmoid that gates nothing in the conservative rule set")
    return stop(n, g)


@vjp("Tanh", table=CONSERVATIVE)
def tanh(n: Node, g: Sym) -> Out:
    """The gate of tanh-GELU = x (1 + tanh(..)) / 2 is held; elsewhere the same problem as for the sigmoid."""
    gates = [node for node in n.y.tensor.outputs if node.op == "Add"]
    if not gates:
        raise n.missing("a tanh that gates nothing in the conservative rule set")
    return stop(n, g)
