"""Rules that hold gates constant, so that input times gradient adds up to the score wherever there is no bias.

Attention weights and the spread that a normalisation divides by are constants (Ali et al. 2022, "XAI for
Transformers: Better Explanations through Conservative Propagation", section 4), and so is the factor F(x) of
GELU = x F(x). What is left of the network is linear in its input. Each of them is an overlay of its own.
"""

from __future__ import annotations

import math

from gradskip_onnx.autodiff.emit import Sym
from gradskip_onnx.autodiff.rules.table import Gradient, Node, Rule, vjp
from gradskip_onnx.autodiff.rules.vjps import normal_cdf, stop
from gradskip_onnx.autodiff.rules.vjps_norm import layer_statistics, reduce_mean, widened

from .gates import centres, readers, readers_behind

Out = tuple[Gradient, ...]

ATTENTION_HELD: dict[str, Rule] = {"Softmax": stop}
SPREAD_HELD: dict[str, Rule] = {"Sqrt": stop}  # the standard deviation of a normalisation written out
MEAN_HELD: dict[str, Rule] = {}  # on top of SPREAD_HELD
GATES_HELD: dict[str, Rule] = {"Erf": stop}  # the gate of a GELU written out, x (1 + erf(x / sqrt 2)) / 2

# --- normalisations -------------------------------------------------------------------------------------------------


@vjp("LayerNormalization", table=SPREAD_HELD)
def layer_norm(n: Node, g: Sym, *more: Sym | None) -> Out:
    """dx = q - mean(q) with q = g scale / std."""
    return _layer_norm(n, n.only_first(g, more), centred=True)


@vjp("LayerNormalization", table=MEAN_HELD)
def layer_norm_mean_held(n: Node, g: Sym, *more: Sym | None) -> Out:
    """dx = q."""
    return _layer_norm(n, n.only_first(g, more), centred=False)


def _layer_norm(n: Node, g: Sym, centred: bool) -> Out:
    x = n.x[0]
    axes = range(n.attrs.get("axis", -1) % x.rank, x.rank)
    shifted, inverse = layer_statistics(n)
    q = widened(g * n.x[1]) * inverse
    dx = q - q.mean(axes) if centred else q
    return (dx.cast(x.dtype), g * (shifted * inverse).cast(x.dtype), g)[: len(n.x)]


@vjp("RMSNormalization", table=SPREAD_HELD)
def rms_norm(n: Node, g: Sym) -> Out:
    """dx = g scale / rms."""
    x = widened(n.x[0])
    axes = range(n.attrs.get("axis", -1) % x.rank, x.rank)
    inverse = ((x * x).mean(axes) + n.attrs.get("epsilon", 1e-5)).apply("Sqrt").apply("Reciprocal")
    return (widened(g * n.x[1]) * inverse).cast(n.x[0].dtype), g * (x * inverse).cast(g.dtype)


@vjp("ReduceMean", table=MEAN_HELD)
def mean(n: Node, g: Sym) -> Out:
    """The mean that a normalisation takes off is held; any other is differentiated."""
    taken_off = any(centres(node) for node in readers(n, n.y.tensor))
    return stop(n, g) if taken_off else reduce_mean(n, g)


# --- gates ----------------------------------------------------------------------------------------------------------


@vjp("Gelu", table=GATES_HELD)
def gelu(n: Node, g: Sym) -> Out:
    """dx = g F(x); the tanh form has F(x) = (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2."""
    x = n.x[0]
    if n.attrs.get("approximate", "none") == "tanh":
        return (g * 0.5 * (1 + (math.sqrt(2 / math.pi) * (x * (1 + 0.044715 * (x * x)))).apply("Tanh")),)
    return (g * normal_cdf(x),)


@vjp("Swish", table=GATES_HELD)
def swish(n: Node, g: Sym) -> Out:
    return (g * (n.x[0] * n.attrs.get("alpha", 1.0)).apply("Sigmoid"),)


@vjp("HardSwish", table=GATES_HELD)
def hard_swish(n: Node, g: Sym) -> Out:
    return (g * n.x[0].apply("HardSigmoid", alpha=1 / 6, beta=0.5),)


@vjp("Mish", table=GATES_HELD)
def mish(n: Node, g: Sym) -> Out:
    return (g * n.x[0].apply("Softplus").apply("Tanh"),)


@vjp("Sigmoid", table=GATES_HELD)
def sigmoid(n: Node, g: Sym) -> Out:
    """The gate of SiLU = x sigmoid(x) is held; as an activation of its own it has no linear part to keep."""
    if not any(node.op == "Mul" for node in readers_behind(n, n.y.tensor)):
        raise n.missing("a sigmoid that gates nothing in a rule set that holds gates")
    return stop(n, g)


@vjp("Tanh", table=GATES_HELD)
def tanh(n: Node, g: Sym) -> Out:
    """The gate of tanh-GELU = x (1 + tanh(..)) / 2 is held; elsewhere the same problem as for the sigmoid."""
    if not any(node.op == "Add" for node in readers_behind(n, n.y.tensor)):
        raise n.missing("a tanh that gates nothing in a rule set that holds gates")
    return stop(n, g)


CONSERVATIVE: dict[str, Rule] = ATTENTION_HELD | SPREAD_HELD | GATES_HELD
