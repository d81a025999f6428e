"""Rules that make a network linear: attention, spreads and gates are constants, so input times gradient is conserved.

Its sum is the score, except for what biases contribute. Attention weights and the spread that a normalisation divides
by are held constant (Ali et al. 2022, "XAI for Transformers: Better Explanations through Conservative Propagation",
section 4), and so is the factor F(x) of GELU = x F(x). Each is an overlay of its own; that of the gates goes on top of
that of the spreads.
"""

from __future__ import annotations

import math

from gradskip_onnx.autodiff.emit import Sym
from gradskip_onnx.autodiff.partial_gradients import Piece
from gradskip_onnx.autodiff.rules.piece_rules import PIECE_RULES, for_pieces
from gradskip_onnx.autodiff.rules.table import VJPS, Gradient, Node, Rule, vjp
from gradskip_onnx.autodiff.rules.vjps import stop
from gradskip_onnx.autodiff.rules.vjps_norm import kept, layer_statistics, normalised, reduce_mean, widened

from .gates import centred_at, gate_at, gates_something, is_root, readers

Out = tuple[Gradient, ...]

ATTENTION_HELD: dict[str, Rule] = {"Softmax": stop}
SPREAD_HELD: dict[str, Rule] = {"Sqrt": stop, "ReduceL2": stop}  # operators of a spread in a norm that is written out
MEAN_HELD: dict[str, Rule] = {}  # on top of SPREAD_HELD
GATES_HELD: dict[str, Rule] = {}  # on top of SPREAD_HELD

# --- normalisations -------------------------------------------------------------------------------------------------


@vjp("LayerNormalization", table=SPREAD_HELD)
def layer_norm(n: Node, g: Sym, *more: Sym | None) -> Out:
    """dx = q - mean(q) with q = g scale / std."""
    return _layer_norm(n, n.only_first(g, more), centred=True)


@vjp("LayerNormalization", table=MEAN_HELD)
def layer_norm_mean_held(n: Node, g: Sym, *more: Sym | None) -> Out:
    """dx = q with q = g scale / std."""
    return _layer_norm(n, n.only_first(g, more), centred=False)


def _layer_norm(n: Node, g: Sym, centred: bool) -> Out:
    x = n.x[0]
    axes = range(n.attrs.get("axis", -1) % x.rank, x.rank)
    shifted, inverse = layer_statistics(n)
    q = widened(g * n.x[1]) * inverse
    dx = q - q.mean(axes) if centred else q
    return (dx.cast(x.dtype), g * (shifted * inverse).cast(x.dtype), g)[: len(n.x)]


@vjp("InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization", table=SPREAD_HELD)
def channel_norm(n: Node, g: Sym) -> Out:
    """As `layer_norm`, over other axes."""
    return normalised(n, g, lambda q, _, inverse, axes: inverse * (q - q.mean(axes)))


@vjp("InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization", table=MEAN_HELD)
def channel_norm_mean_held(n: Node, g: Sym) -> Out:
    return normalised(n, g, lambda q, _, inverse, __: inverse * q)


@vjp("RMSNormalization", table=SPREAD_HELD)
def rms_norm(n: Node, g: Sym) -> Out:
    """dx = g scale / rms."""
    x = widened(n.x[0])
    axes = range(n.attrs.get("axis", -1) % x.rank, x.rank)
    inverse = ((x * x).mean(axes) + n.attrs.get("epsilon", 1e-5)).apply("Sqrt").apply("Reciprocal")
    return (widened(g * n.x[1]) * inverse).cast(n.x[0].dtype), g * (x * inverse).cast(g.dtype)


@vjp("LpNormalization", table=SPREAD_HELD)
def lp_norm(n: Node, g: Sym) -> Out:
    """dx = g / |x| for p = 2; for p = 1 the true gradient, as for a 1-norm that is written out."""
    if n.attrs.get("p", 2) == 1:
        return VJPS[n.op](n, g)
    norm = (n.x[0] * n.x[0]).sum([n.attrs.get("axis", -1)]).apply("Sqrt")
    return (norm.equals(0).where(n.emit.const(0, g.dtype), g / norm),)


@vjp("Pow", table=SPREAD_HELD)
def root(n: Node, g: Sym) -> Out:
    """Hold fractional powers, such as x^(1/2) and x^(-1/2), constant like Sqrt."""
    return stop(n, g) if is_root(n.value(1)) else VJPS[n.op](n, g)


@vjp("ReduceMean", table=MEAN_HELD)
def mean(n: Node, g: Sym) -> Out:
    """Hold the mean that a normalisation subtracts constant; differentiate any other."""
    read_by = readers(n, n.y.tensor)
    read_by += [reader for node in read_by if node.op == "Neg" for reader in readers(n, node.outputs[0])]
    subtracted = any(centred_at(node) is not None for node in read_by)
    return stop(n, g) if subtracted else reduce_mean(n, g)


# --- gates ----------------------------------------------------------------------------------------------------------


@vjp("Mul", "Div", table=GATES_HELD)
def gated(n: Node, g: Sym) -> Out:
    """dx = g F for x F with a gate F, however F is written; other products have their true gradient."""
    return _but_at_gate(n, VJPS[n.op](n, g))


@for_pieces(gated)
def gated_piece(n: Node, g: Piece) -> Out | None:
    plain = PIECE_RULES.get(VJPS[n.op])
    found = None if plain is None else plain(n, g)
    return None if found is None else _but_at_gate(n, found)


def _but_at_gate(n: Node, gradients: Out) -> Out:
    gate = gate_at(n, n.y.tensor.inputs[0])
    return tuple(None if at == gate else found for at, found in enumerate(gradients))


@vjp("Pow", table=GATES_HELD)
def power(n: Node, g: Sym) -> Out:
    """x^p = x x^(p-1) with the gate x^(p-1): dx = g x^(p-1)."""
    exponent = n.value(1)
    if exponent is None or exponent.size != 1 or is_root(exponent) or exponent.item() < 1:
        return root(n, g)
    rest = float(exponent.item()) - 1
    x = n.x[0]
    return g * (x if rest == 1 else x.apply("Pow", rest)), None


@vjp("ReduceSumSquare", table=GATES_HELD)
def sum_of_squares(n: Node, g: Sym) -> Out:
    return n.first(kept(n, g) * n.x[0])


@vjp("Gelu", table=GATES_HELD)
def gelu(n: Node, g: Sym) -> Out:
    """dx = g F(x); the tanh form has F(x) = (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2."""
    x = n.x[0]
    if n.attrs.get("approximate", "none") == "tanh":
        return (g * 0.5 * (1 + (math.sqrt(2 / math.pi) * (x * (1 + 0.044715 * (x * x)))).apply("Tanh")),)
    return (g.scaled(0.5) * (1 + (x * math.sqrt(0.5)).apply("Erf")),)


@vjp("Swish", table=GATES_HELD)
def swish(n: Node, g: Sym) -> Out:
    return (g * (n.x[0] * n.attrs.get("alpha", 1.0)).apply("Sigmoid"),)


@vjp("HardSwish", table=GATES_HELD)
def hard_swish(n: Node, g: Sym) -> Out:
    return (g * n.x[0].apply("HardSigmoid", alpha=1 / 6, beta=0.5),)


@vjp("Mish", table=GATES_HELD)
def mish(n: Node, g: Sym) -> Out:
    return (g * n.x[0].apply("Softplus").apply("Tanh"),)


@vjp("Softsign", table=GATES_HELD)
def softsign(n: Node, g: Sym) -> Out:
    """y = x / (1 + |x|)."""
    return (g / (1 + n.x[0].apply("Abs")),)


@vjp("Sigmoid", "Tanh", "Erf", table=GATES_HELD)
def smooth_gate(n: Node, g: Sym) -> Out:
    """Constant if it gates something; as an activation it is no linear map and raises MissingRuleError."""
    if not gates_something(n, n.y.tensor):
        raise n.missing(f"a {n.op.lower()} that gates nothing in a rule set that holds gates")
    return stop(n, g)


@vjp("HardSigmoid", table=GATES_HELD)
def hard_gate(n: Node, g: Sym) -> Out:
    """Constant if it gates something; else differentiated, since it is piecewise linear like Clip."""
    return stop(n, g) if gates_something(n, n.y.tensor) else VJPS[n.op](n, g)


CONSERVATIVE: dict[str, Rule] = ATTENTION_HELD | SPREAD_HELD | GATES_HELD
