"""The table, continued: quantised operators -> dequantise, compute in float, quantise again.

ONNX Runtime's integer kernels give the same result up to one step of the output's scale. Quantise and dequantise stay
in the graph, so values keep their grid, and the backward pass takes both straight through.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from .lowerings import Outputs, attend, lowering, refuse_unless
from .write import Write, optional_input


def dequantise(w: Write, n: gs.Node, first: int, **attrs: Any) -> gs.Tensor:
    """Dequantise the input whose values, scale and zero point are the inputs from `first` on."""
    zero = optional_input(n, first + 2)
    parts = [n.inputs[first], n.inputs[first + 1], *([zero] if zero is not None else [])]
    scale = n.inputs[first + 1]
    if not attrs and len(scale.shape or ()) == 1 and (scale.shape or (1,))[0] > 1:
        attrs = {"axis": w.rank(n.inputs[first]) - 1}
    return w.op("DequantizeLinear", *parts, gives=np.float32, **attrs)


def quantise(w: Write, n: gs.Node, y: gs.Tensor, first: int) -> gs.Tensor:
    """Quantise `y` to the grid whose scale and zero point are the inputs from `first` on."""
    zero = optional_input(n, first + 1)
    kind = w.dtype(zero) if zero is not None else np.uint8
    return w.op("QuantizeLinear", y, n.inputs[first], *([zero] if zero is not None else []), gives=kind)


@lowering("QLinearMatMul", domain="")
def qlinear_matmul(w: Write, n: gs.Node) -> Outputs:
    return (quantise(w, n, w.op("MatMul", dequantise(w, n, 0), dequantise(w, n, 3)), 6),)


@lowering("QLinearConv", domain="")
def qlinear_conv(w: Write, n: gs.Node) -> Outputs:
    """The bias is int32 in units of the two input scales."""
    x, weight = dequantise(w, n, 0), dequantise(w, n, 3, axis=0)
    bias = optional_input(n, 8)
    extra = []
    if bias is not None:
        unit = w.op("Mul", n.inputs[1], n.inputs[4])
        extra = [w.op("Mul", w.cast(bias, np.float32), unit)]
    return (quantise(w, n, w.op("Conv", x, weight, *extra, **dict(n.attrs)), 6),)


@lowering("QGemm")
def qgemm(w: Write, n: gs.Node) -> Outputs:
    """Gemm with a bias in units of both input scales; without an output scale the result stays float.

    The weight may have a scale for each column of the result.
    """
    a, b = dequantise(w, n, 0), dequantise(w, n, 3, axis=0 if n.attrs.get("transB") else 1)
    bias = optional_input(n, 6)
    extra = [] if bias is None else [w.op("Mul", w.cast(bias, np.float32), w.op("Mul", n.inputs[1], n.inputs[4]))]
    keep = {key: n.attrs[key] for key in ("transA", "transB", "alpha") if key in n.attrs}
    y = w.op("Gemm", a, b, *extra, **keep)
    return (y if optional_input(n, 7) is None else quantise(w, n, y, 7),)


@lowering("QLinearMul")
def qlinear_product(w: Write, n: gs.Node) -> Outputs:
    return (quantise(w, n, w.op("Mul", dequantise(w, n, 0), dequantise(w, n, 3)), 6),)


@lowering("QLinearAdd")
def qlinear_sum(w: Write, n: gs.Node) -> Outputs:
    return (quantise(w, n, w.op("Add", dequantise(w, n, 0), dequantise(w, n, 3)), 6),)


@lowering("QLinearSigmoid", "QLinearLeakyRelu", "QLinearAveragePool", "QLinearReduceMean")
def qlinear_unary(w: Write, n: gs.Node) -> Outputs:
    refuse_unless(not n.attrs.get("channels_last"), n, "channels-last layout")
    attrs = {key: value for key, value in n.attrs.items() if key != "channels_last"}
    if n.op == "QLinearReduceMean":
        y = w.reduce("ReduceMean", dequantise(w, n, 0), attrs.get("axes", ()), attrs.get("keepdims", 1))
    else:
        y = w.op(n.op.removeprefix("QLinear"), dequantise(w, n, 0), **attrs)
    return (quantise(w, n, y, 3),)


@lowering("QLinearGlobalAveragePool")
def qlinear_global_pool(w: Write, n: gs.Node) -> Outputs:
    refuse_unless(not n.attrs.get("channels_last"), n, "channels-last layout")
    return (quantise(w, n, w.op("GlobalAveragePool", dequantise(w, n, 0)), 3),)


@lowering("QLinearSoftmax")
def qlinear_softmax(w: Write, n: gs.Node) -> Outputs:
    return (quantise(w, n, w.op("Softmax", dequantise(w, n, 0), axis=int(n.attrs.get("axis", -1))), 3),)


@lowering("QLinearConcat")
def qlinear_concat(w: Write, n: gs.Node) -> Outputs:
    parts = [dequantise(w, n, first) for first in range(2, len(n.inputs), 3)]
    return (quantise(w, n, w.op("Concat", *parts, axis=int(n.attrs["axis"])), 0),)


@lowering("QuantizeLinear", "DequantizeLinear")
def standard_domain(w: Write, n: gs.Node) -> Outputs:
    """The same operators as in the standard domain."""
    return (w.op(n.op, *n.inputs, **dict(n.attrs)),)


@lowering("MatMulIntegerToFloat")
def integer_product_to_float(w: Write, n: gs.Node) -> Outputs:
    """(A - a₀)(B - b₀) in units of both scales, plus a bias."""
    return (
        _scaled_product(
            w,
            n.inputs[0],
            n.inputs[2],
            optional_input(n, 4),
            n.inputs[1],
            n.inputs[3],
            optional_input(n, 5),
            optional_input(n, 6),
        ),
    )


@lowering("DynamicQuantizeMatMul")
def dynamic_product(w: Write, n: gs.Node) -> Outputs:
    """As `MatMulIntegerToFloat`, after A is quantised by its own range."""
    values, scale, zero = w.ops("DynamicQuantizeLinear", 3, n.inputs[0])
    return (
        _scaled_product(w, values, scale, zero, n.inputs[1], n.inputs[2], optional_input(n, 3), optional_input(n, 4)),
    )


def _scaled_product(
    w: Write, a: gs.Tensor, a_scale: gs.Tensor, a_zero: gs.Tensor | None,
    b: gs.Tensor, b_scale: gs.Tensor, b_zero: gs.Tensor | None, bias: gs.Tensor | None,
) -> gs.Tensor:  # fmt: skip
    columns = {"axis": len(b.shape) - 1} if b_scale.shape and b_scale.shape[0] > 1 else {}
    left = w.op("DequantizeLinear", a, a_scale, *([a_zero] if a_zero is not None else []), gives=np.float32)
    right = w.op("DequantizeLinear", b, b_scale, *([b_zero] if b_zero is not None else []), gives=np.float32, **columns)
    return w.add_if(w.op("MatMul", left, right), bias)


@lowering("QAttention")
def quantised_attention(w: Write, n: gs.Node) -> Outputs:
    refuse_unless(
        all(optional_input(n, i) is None for i in (5, 8)) and not n.attrs.get("unidirectional"), n, "a mask or a cache"
    )
    heads = int(n.attrs["num_heads"])
    packed = _scaled_product(
        w,
        n.inputs[0],
        n.inputs[3],
        optional_input(n, 6),
        n.inputs[1],
        n.inputs[4],
        optional_input(n, 7),
        optional_input(n, 2),
    )
    width = n.inputs[1].shape[1] // 3
    q, k, v = (w.split_heads(part, heads) for part in w.ops("Split", 3, packed, w.ints(width, width, width), axis=-1))
    scale = float(n.attrs.get("scale") or 0.0) or None
    return (w.join_heads(attend(w, q, k, v, scale=scale, node=n)),)


@lowering("MatMulNBits")
def few_bits_product(w: Write, n: gs.Node) -> Outputs:
    """Weights of 2, 4 or 8 bits in blocks along the inner axis; they are unpacked to float once, here."""
    bits, size, inner, outer = (int(n.attrs[key]) for key in ("bits", "block_size", "K", "N"))
    refuse_unless(bits in (2, 4, 8) and optional_input(n, 4) is None, n, f"{bits} bits or reordered groups")
    weight = unpack(np.asarray(n.inputs[1].values), bits).reshape(outer, -1)[:, : -(-inner // size) * size]
    blocks = weight.reshape(outer, -1, size).astype(np.float32)
    scales = np.asarray(n.inputs[2].values).reshape(outer, -1, 1)
    zeros = _zero_points(n, bits, outer, blocks.shape[1])
    real_weight = ((blocks - zeros) * scales).reshape(outer, -1)[:, :inner]
    product = w.op("MatMul", n.inputs[0], w.const(real_weight.T, w.dtype(n.inputs[0])))
    return (w.add_if(product, optional_input(n, 5)),)


def unpack(packed: Any, bits: int) -> Any:
    """Bytes to the numbers in them, lowest bits first, along the last axis."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((packed[..., None] >> shifts) & (2**bits - 1)).reshape(*packed.shape[:-1], -1)


def _zero_points(n: gs.Node, bits: int, outer: int, blocks: int) -> Any:
    stored = optional_input(n, 3)
    if stored is None:
        return np.float32(2 ** (bits - 1))
    values = np.asarray(stored.values)
    if values.dtype == np.uint8:
        values = unpack(values.reshape(outer, -1), bits)[:, :blocks]
    return values.reshape(outer, -1, 1).astype(np.float32)
