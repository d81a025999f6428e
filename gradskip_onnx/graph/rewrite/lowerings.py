"""The table: fused operator -> plain operators. Each row is proven equal on its node's own inputs before it is used.

A row takes the node and a writer and returns one tensor for each output it can supply; outputs nobody reads may be
left out. Rows are looked up by domain and operator. Quantised operators are in `lowerings_quantised.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.errors import UnsupportedModelError

from .write import Write, optional_input

MICROSOFT = "com.microsoft"
Outputs = Sequence[gs.Tensor | None]
Row = Callable[[Write, gs.Node], Outputs]
LOWERINGS: dict[tuple[str, str], Row] = {}


def lowering(*ops: str, domain: str = MICROSOFT) -> Callable[[Row], Row]:
    """Add a row to the table."""

    def add(row: Row) -> Row:
        LOWERINGS.update({(domain, op): row for op in ops})
        return row

    return add


def refuse_unless(good: bool, node: gs.Node, what: str) -> None:
    """Raise UnsupportedModelError for a form of a fused operator that its row does not cover."""
    if not good:
        raise UnsupportedModelError(
            "fused-form", f"{node.op} at node {node.name!r} uses {what}, which is not supported"
        )


# --- activations -----------------------------------------------------------------------------------------------------


def erf_gelu(w: Write, x: gs.Tensor) -> gs.Tensor:
    """x/2 (1 + erf(x/√2))."""
    gate = w.op("Add", w.op("Erf", w.op("Mul", x, 0.5**0.5)), 1.0)
    return w.op("Mul", w.op("Mul", x, 0.5), gate)


def tanh_gelu(w: Write, x: gs.Tensor) -> gs.Tensor:
    """x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))."""
    cube = w.op("Mul", w.op("Mul", x, w.op("Mul", x, x)), 0.044715)
    gate = w.op("Add", w.op("Tanh", w.op("Mul", w.op("Add", x, cube), (2 / np.pi) ** 0.5)), 1.0)
    return w.op("Mul", w.op("Mul", x, 0.5), gate)


@lowering("Gelu", "BiasGelu")
def gelu(w: Write, n: gs.Node) -> Outputs:
    return (erf_gelu(w, w.add_if(n.inputs[0], optional_input(n, 1))),)


@lowering("FastGelu")
def fast_gelu(w: Write, n: gs.Node) -> Outputs:
    return (tanh_gelu(w, w.add_if(n.inputs[0], optional_input(n, 1))),)


@lowering("QuickGelu")
def quick_gelu(w: Write, n: gs.Node) -> Outputs:
    """x σ(αx)."""
    x = n.inputs[0]
    return (w.op("Mul", x, w.op("Sigmoid", w.op("Mul", x, float(n.attrs.get("alpha", 1.702))))),)


ACTIVATIONS = frozenset({"Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "Clip", "Elu", "Softplus"})


def activate(w: Write, n: gs.Node, x: gs.Tensor, params: Mapping[str, Any]) -> gs.Tensor:
    """Apply the activation that a fused node ends with, if any."""
    kind = n.attrs.get("activation") or ""
    if not kind:
        return x
    refuse_unless(kind in ACTIVATIONS, n, f"activation {kind}")
    if kind == "Clip":
        return w.op("Clip", x, *(float(value) for value in params.values()))
    return w.op(kind, x, **params)


# --- products --------------------------------------------------------------------------------------------------------


@lowering("FusedMatMul", "TransposeMatMul")
def fused_matmul(w: Write, n: gs.Node) -> Outputs:
    """α A B with transposed operands."""
    refuse_unless(not n.attrs.get("transBatchA") and not n.attrs.get("transBatchB"), n, "transposed batches")
    a, b = n.inputs[:2]
    if n.attrs.get("transA"):
        a = w.swap_last(a, w.rank(a))
    if n.attrs.get("transB"):
        b = w.swap_last(b, w.rank(n.inputs[1]))
    alpha = float(n.attrs.get("alpha", 1.0))
    product = w.op("MatMul", a, b)
    return (product if alpha == 1.0 else w.op("Mul", product, alpha),)


@lowering("FusedGemm")
def fused_gemm(w: Write, n: gs.Node) -> Outputs:
    keep = {key: n.attrs[key] for key in ("alpha", "beta", "transA", "transB") if key in n.attrs}
    names = {"activation_alpha": "alpha", "activation_beta": "beta"}
    params = {new: n.attrs[old] for old, new in names.items() if old in n.attrs}
    return (activate(w, n, w.op("Gemm", *n.inputs, **keep), params),)


CONV_ATTRS = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


@lowering("FusedConv")
def fused_conv(w: Write, n: gs.Node) -> Outputs:
    """act(conv(X) + Z)."""
    bias, extra = optional_input(n, 2), optional_input(n, 3)
    inputs = [*n.inputs[:2], *([bias] if bias is not None else [])]
    y = w.op("Conv", *inputs, **{key: n.attrs[key] for key in CONV_ATTRS if key in n.attrs})
    values = list(n.attrs.get("activation_params") or ())
    names = {"Clip": ("min", "max"), "HardSigmoid": ("alpha", "beta")}.get(n.attrs.get("activation"), ("alpha",))
    return (activate(w, n, w.add_if(y, extra), dict(zip(names, values, strict=False))),)


# --- normalisation ---------------------------------------------------------------------------------------------------


def residual_sum(w: Write, one: gs.Tensor, other: gs.Tensor, bias: gs.Tensor | None) -> gs.Tensor:
    """one + other + bias; the bias is added to the branch first, so that the last addition is the residual add."""
    branch, stream = (one, other) if w.follows(one, other) else (other, one)
    return w.op("Add", w.add_if(branch, bias), stream)


@lowering("SkipLayerNormalization")
def skip_layer_norm(w: Write, n: gs.Node) -> Outputs:
    """LayerNorm(input + skip + bias); the sum is the fourth output."""
    total = residual_sum(w, n.inputs[0], n.inputs[1], optional_input(n, 4))
    gain, shift = n.inputs[2], optional_input(n, 3)
    inputs = [total, gain, *([shift] if shift is not None else [])]
    normed = w.op("LayerNormalization", *inputs, axis=-1, epsilon=float(n.attrs.get("epsilon", 1e-12)))
    return normed, None, None, total


def rms_norm(w: Write, x: gs.Tensor, gain: gs.Tensor, epsilon: float) -> gs.Tensor:
    """x / √(mean(x²) + ε) · gain, over the last axis."""
    mean = w.mean_last(w.op("Mul", x, x))
    return w.op("Mul", w.op("Div", x, w.op("Sqrt", w.op("Add", mean, epsilon))), gain)


@lowering("SkipSimplifiedLayerNormalization")
def skip_rms_norm(w: Write, n: gs.Node) -> Outputs:
    total = residual_sum(w, n.inputs[0], n.inputs[1], optional_input(n, 3))
    return rms_norm(w, total, n.inputs[2], float(n.attrs.get("epsilon", 1e-12))), None, None, total


@lowering("SimplifiedLayerNormalization", domain="")
def simplified_layer_norm(w: Write, n: gs.Node) -> Outputs:
    refuse_unless(n.attrs.get("axis", -1) in (-1, w.rank(n.inputs[0]) - 1), n, "an axis that is not the last")
    return (rms_norm(w, n.inputs[0], n.inputs[1], float(n.attrs.get("epsilon", 1e-5))),)


@lowering("BiasSoftmax")
def bias_softmax(w: Write, n: gs.Node) -> Outputs:
    axis, rank = n.attrs.get("axis", 1), w.rank(n.inputs[0])
    refuse_unless(axis in (-1, rank - 1) and w.rank(n.inputs[1]) == rank, n, "a softmax over several axes")
    return (w.op("Softmax", w.op("Add", *n.inputs[:2]), axis=-1),)


# --- attention -------------------------------------------------------------------------------------------------------


def attend(
    w: Write, q: gs.Tensor, k: gs.Tensor, v: gs.Tensor, *, scale: float | None, bias: gs.Tensor | None = None,
    causal: bool = False, node: gs.Node,
) -> gs.Tensor:  # fmt: skip
    """softmax(scale · Q Kᵀ + bias) V for (B, heads, S, d) tensors."""
    refuse_unless(not causal, node, "a causal mask: not a vision model")
    scores = w.op("MatMul", q, w.op("Transpose", k, perm=[0, 1, 3, 2]))
    if scale is not None:
        scores = w.op("Mul", scores, scale)
    else:
        width = w.op("Gather", w.op("Shape", q, gives=np.int64), w.const(-1, np.int64), axis=0)
        scores = w.op("Div", scores, w.op("Sqrt", w.cast(width, w.dtype(q))))
    return w.op("MatMul", w.op("Softmax", w.add_if(scores, bias), axis=-1), v)


def _scale(n: gs.Node) -> float | None:
    """The scale attribute; None, for 1/√d, if it is 0 or missing."""
    value = float(n.attrs.get("scale") or 0.0)
    return value or None


@lowering("Attention")
def packed_attention(w: Write, n: gs.Node) -> Outputs:
    """Projection of Q, K and V in one product, then attention."""
    refuse_unless(all(optional_input(n, i) is None for i in (3, 4, 6)), n, "a mask index or a cache")
    heads = int(n.attrs["num_heads"])
    packed = w.add_if(w.op("MatMul", *n.inputs[:2]), optional_input(n, 2))
    sizes = n.attrs.get("qkv_hidden_sizes") or [n.inputs[1].shape[1] // 3] * 3
    parts = w.ops("Split", 3, packed, w.ints(*sizes), axis=-1)
    q, k, v = (w.split_heads(part, heads) for part in parts)
    causal = bool(n.attrs.get("unidirectional"))
    return (w.join_heads(attend(w, q, k, v, scale=_scale(n), bias=optional_input(n, 5), causal=causal, node=n)),)


@lowering("MultiHeadAttention")
def multi_head_attention(w: Write, n: gs.Node) -> Outputs:
    """Attention on projected (B, S, heads * d) tensors."""
    refuse_unless(all(optional_input(n, i) is None for i in (4, 6, 7, 8, 9)), n, "a padding mask or a cache")
    key, value = optional_input(n, 1), optional_input(n, 2)
    refuse_unless(
        key is not None and value is not None and w.rank(n.inputs[0]) == 3, n, "packed queries, keys and values"
    )
    heads = int(n.attrs["num_heads"])
    parts = [n.inputs[0], key, value]
    bias = optional_input(n, 3)
    if bias is not None:
        width = bias.shape[0] // 3
        pieces = w.ops("Split", 3, bias, w.ints(width, width, bias.shape[0] - 2 * width), axis=0)
        parts = [w.op("Add", part, piece) for part, piece in zip(parts, pieces, strict=True)]
    ready = [w.split_heads(p, heads) if i == 0 or w.rank(n.inputs[i]) == 3 else p for i, p in enumerate(parts)]
    causal = bool(n.attrs.get("unidirectional"))
    return (w.join_heads(attend(w, *ready, scale=_scale(n), bias=optional_input(n, 5), causal=causal, node=n)),)


@lowering("Attention", domain="")
def native_attention(w: Write, n: gs.Node) -> Outputs:
    """Attention of opset 23 and later, on (B, heads, S, d) or (B, S, heads * d) tensors."""
    refuse_unless(all(optional_input(n, i) is None for i in (4, 5, 6)), n, "a cache or padded keys")
    refuse_unless(not n.attrs.get("softcap"), n, "a soft cap")
    flat = w.rank(n.inputs[0]) == 3
    q, k, v = n.inputs[:3]
    groups = [int(n.attrs.get(key) or 0) for key in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    refuse_unless(not flat or groups[0] == groups[1], n, "grouped queries")
    if flat:
        q, k, v = (w.split_heads(x, heads) for x, heads in zip((q, k, v), groups, strict=True))
    mask = optional_input(n, 3)
    if mask is not None and np.dtype(w.dtype(mask)).kind == "b":
        kind = np.dtype(w.dtype(n.inputs[0]))
        mask = w.op("Where", mask, w.const(0.0, kind), w.const(np.finfo(kind).min / 2, kind), gives=kind)
    context = attend(w, q, k, v, scale=_scale(n), bias=mask, causal=bool(n.attrs.get("is_causal")), node=n)
    return (w.join_heads(context) if flat else context,)
