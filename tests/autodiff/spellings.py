"""The table: functions of vision transformers, each in the ways that exporters and optimisers write it.

The first spelling of a function is the one that the others are compared with.
"""

from __future__ import annotations

import math

from .spelling_parts import (
    EPSILON,
    MICROSOFT,
    TINY,
    TOKENS,
    WIDTH,
    Spelling,
    attention,
    by_groups,
    clipped,
    conv,
    einsum_layer,
    erf_gate,
    gated,
    gemm,
    group_norm,
    group_norm_written_out,
    halves,
    instance_norm_written_out,
    layer_norm,
    layer_norm_by_moments,
    one,
    over_norm,
    positive,
    relu6,
    rms,
    scaled_layer,
    sigmoid_written_out,
    softmax,
    softmax_by_reciprocal,
    softmax_less_largest,
    softmax_less_maximum,
    softmax_of_exp,
    softmax_of_log,
    softmax_of_log_sum,
    softplus,
    squares,
    tanh_gate,
)

SPELLINGS: dict[str, dict[str, Spelling]] = {
    "SiLU": {
        "x sigmoid(x)": Spelling(lambda w, h, _: w.op("Mul", h, w.op("Sigmoid", h))),
        "sigmoid(x) x": Spelling(lambda w, h, _: w.op("Mul", w.op("Sigmoid", h), h)),
        "Swish": one("Swish", opset=24),
        "QuickGelu": one("QuickGelu", domain=MICROSOFT, alpha=1.0),
        "x / (1 + exp(-x))": Spelling(lambda w, h, _: w.op("Div", h, sigmoid_written_out(w, h))),
        "x times one over": Spelling(lambda w, h, _: w.op("Mul", h, w.op("Reciprocal", sigmoid_written_out(w, h)))),
    },
    "QuickGELU": {
        "QuickGelu": one("QuickGelu", domain=MICROSOFT, alpha=1.702),
        "x sigmoid(1.702 x)": Spelling(lambda w, h, _: w.op("Mul", h, w.op("Sigmoid", w.op("Mul", h, 1.702)))),
        "Swish": one("Swish", opset=24, alpha=1.702),
    },
    "GELU": {
        "Gelu": one("Gelu"),
        "of Microsoft": one("Gelu", domain=MICROSOFT),
        "(x / 2) gate": Spelling(lambda w, h, _: halves(w, h, erf_gate(w, h))),
        "x gate / 2": Spelling(lambda w, h, _: w.op("Div", w.op("Mul", h, erf_gate(w, h)), 2.0)),
        "x (gate / 2)": Spelling(lambda w, h, _: w.op("Mul", h, w.op("Mul", erf_gate(w, h), 0.5))),
        "x / sqrt 2 as a product": Spelling(
            lambda w, h, _: halves(w, h, w.op("Add", w.op("Erf", w.op("Mul", h, math.sqrt(0.5))), 1.0))
        ),
        "gate on the left": Spelling(lambda w, h, _: w.op("Mul", erf_gate(w, h), w.op("Mul", 0.5, h))),
    },
    "GELU of a sum": {
        "Gelu": Spelling(lambda w, h, _: w.op("Gelu", w.op("Add", h, w.bias))),
        "BiasGelu": Spelling(lambda w, h, _: w.op("BiasGelu", h, w.bias, domain=MICROSOFT)),
    },
    "tanh GELU": {
        "Gelu": one("Gelu", approximate="tanh"),
        "FastGelu": one("FastGelu", domain=MICROSOFT),
        "by Pow": Spelling(lambda w, h, _: halves(w, h, tanh_gate(w, h, w.op("Pow", h, 3.0)))),
        "by x x x": Spelling(lambda w, h, _: halves(w, h, tanh_gate(w, h, w.op("Mul", h, w.op("Mul", h, h))))),
        "x x x from the left": Spelling(
            lambda w, h, _: w.op("Mul", h, w.op("Mul", 0.5, tanh_gate(w, h, w.op("Mul", w.op("Mul", h, h), h))))
        ),
    },
    "HardSwish": {
        "HardSwish": one("HardSwish"),
        "x HardSigmoid(x)": Spelling(lambda w, h, _: w.op("Mul", h, w.op("HardSigmoid", h, alpha=1 / 6, beta=0.5))),
        "x Clip(x + 3) / 6": Spelling(lambda w, h, _: w.op("Div", w.op("Mul", h, clipped(w, h)), 6.0)),
        "x (Clip(x + 3) / 6)": Spelling(lambda w, h, _: w.op("Mul", h, w.op("Mul", clipped(w, h), 1 / 6))),
        "x relu6(x + 3) / 6": Spelling(lambda w, h, _: w.op("Div", w.op("Mul", h, relu6(w, w.op("Add", h, 3.0))), 6.0)),
    },
    "Mish": {
        "Mish": one("Mish"),
        "x tanh(softplus(x))": Spelling(lambda w, h, _: w.op("Mul", h, w.op("Tanh", w.op("Softplus", h)))),
        "x tanh(log(1 + exp(x)))": Spelling(lambda w, h, _: w.op("Mul", h, w.op("Tanh", softplus(w, h)))),
    },
    "Softsign": {
        "Softsign": one("Softsign"),
        "x / (1 + |x|)": Spelling(lambda w, h, _: w.op("Div", h, w.op("Add", w.op("Abs", h), 1.0))),
    },
    "SwiGLU": {
        "a (b sigmoid(b))": Spelling(lambda w, h, e: w.op("Mul", e, w.op("Mul", h, w.op("Sigmoid", h)))),
        "(a b) sigmoid(b)": Spelling(lambda w, h, e: w.op("Mul", w.op("Mul", e, h), w.op("Sigmoid", h))),
        "Swish": Spelling(lambda w, h, e: w.op("Mul", w.op("Swish", h), e), opset=24),
        "a (b / (1 + exp(-b)))": Spelling(lambda w, h, e: w.op("Mul", e, w.op("Div", h, sigmoid_written_out(w, h)))),
    },
    "LeakyReLU": {
        "LeakyRelu": one("LeakyRelu", alpha=0.1),
        "PRelu": one("PRelu", [0.1]),
        "Max": Spelling(lambda w, h, _: w.op("Max", h, w.op("Mul", h, 0.1))),
        "Where": Spelling(lambda w, h, _: w.op("Where", w.op("Greater", h, 0.0), h, w.op("Mul", h, 0.1))),
    },
    "ELU": {
        "Elu": one("Elu"),
        "Where": Spelling(lambda w, h, _: w.op("Where", w.op("Greater", h, 0.0), h, w.op("Sub", w.op("Exp", h), 1.0))),
        "Celu": one("Celu"),
    },
    "ReLU6": {
        "Clip": one("Clip", 0.0, 6.0),
        "Min(Max)": Spelling(lambda w, h, _: w.op("Min", w.op("Max", h, 0.0), 6.0)),
        "Min(Relu)": Spelling(lambda w, h, _: relu6(w, h)),
    },
    "squared ReLU": {
        "Pow": Spelling(lambda w, h, _: w.op("Pow", w.op("Relu", h), 2.0)),
        "r r": Spelling(lambda w, h, _: squares(w, w.op("Relu", h))),
        "x r": Spelling(lambda w, h, _: w.op("Mul", h, w.op("Relu", h))),
    },
    "cube": {
        "Pow": one("Pow", 3.0),
        "x (x x)": Spelling(lambda w, h, _: w.op("Mul", h, w.op("Mul", h, h))),
        "(x x) x": Spelling(lambda w, h, _: w.op("Mul", w.op("Mul", h, h), h)),
    },
    "LayerNorm": {
        "LayerNormalization": Spelling(
            lambda w, h, _: w.op("LayerNormalization", h, w.gain, w.bias, axis=-1, epsilon=EPSILON)
        ),
        "Div by Sqrt": layer_norm(lambda w, c, v: w.op("Div", c, w.op("Sqrt", v))),
        "Mul by one over Sqrt": layer_norm(lambda w, c, v: w.op("Mul", c, w.op("Reciprocal", w.op("Sqrt", v)))),
        "Mul by 1 / Sqrt": layer_norm(lambda w, c, v: w.op("Mul", c, w.op("Div", 1.0, w.op("Sqrt", v)))),
        "Div by a power": layer_norm(lambda w, c, v: w.op("Div", c, w.op("Pow", v, 0.5))),
        "Mul by a power": layer_norm(lambda w, c, v: w.op("Mul", w.op("Pow", v, -0.5), c)),
        "by moments": Spelling(layer_norm_by_moments),
    },
    "LayerNorm of a sum": {
        "LayerNormalization": Spelling(
            lambda w, h, e: w.op("LayerNormalization", w.op("Add", h, e), w.gain, w.bias, axis=-1, epsilon=EPSILON)
        ),
        "SkipLayerNormalization": Spelling(
            lambda w, h, e: w.op("SkipLayerNormalization", h, e, w.gain, w.bias, domain=MICROSOFT, epsilon=EPSILON)
        ),
    },
    "RMSNorm": {
        "RMSNormalization": Spelling(
            lambda w, h, _: w.op("RMSNormalization", h, w.gain, axis=-1, epsilon=EPSILON), opset=23
        ),
        "SimplifiedLayerNormalization": Spelling(
            lambda w, h, _: w.op("SimplifiedLayerNormalization", h, w.gain, axis=-1, epsilon=EPSILON)
        ),
        "Div by Sqrt": over_norm(lambda w, h: w.op("Sqrt", rms(w, h))),
        "Mul by a power": Spelling(lambda w, h, _: w.op("Mul", w.op("Mul", h, w.op("Pow", rms(w, h), -0.5)), w.gain)),
    },
    "unit length": {
        "LpNormalization": Spelling(lambda w, h, _: w.op("Mul", w.op("LpNormalization", h, axis=-1, p=2), w.gain)),
        "by ReduceL2": over_norm(lambda w, h: w.reduce("ReduceL2", h)),
        "by ReduceSumSquare": over_norm(lambda w, h: w.op("Sqrt", w.reduce("ReduceSumSquare", h))),
        "by squares": over_norm(lambda w, h: w.op("Sqrt", w.reduce("ReduceSum", squares(w, h)))),
        "guarded": over_norm(lambda w, h: w.op("Max", w.reduce("ReduceL2", h), 1e-12)),
    },
    "GroupNorm": {
        "GroupNormalization": Spelling(lambda w, h, _: by_groups(w, h, group_norm), opset=21),
        "written out": Spelling(lambda w, h, _: by_groups(w, h, group_norm_written_out)),
    },
    "InstanceNorm": {
        "InstanceNormalization": Spelling(
            lambda w, h, _: by_groups(w, h, lambda w, x: w.op("InstanceNormalization", x, w.gain, w.bias, epsilon=TINY))
        ),
        "written out": Spelling(lambda w, h, _: by_groups(w, h, instance_norm_written_out)),
        "MeanVarianceNormalization": Spelling(
            lambda w, h, _: by_groups(
                w,
                h,
                lambda w, x: w.op(
                    "Add",
                    w.op("Mul", w.op("MeanVarianceNormalization", x, axes=[2]), w.op("Unsqueeze", w.gain, w.ints(1))),
                    w.op("Unsqueeze", w.bias, w.ints(1)),
                ),
            )
        ),
    },
    "attention": {
        "MatMul": attention(softmax),
        "Einsum": attention(softmax, einsum=True),
        "exp over sum": attention(softmax_of_exp),
        "exp over sum, less the maximum": attention(softmax_less_maximum),
        "exp over sum, less the largest of all": attention(softmax_less_largest),
        "exp times one over sum": attention(softmax_by_reciprocal),
        "exp of LogSoftmax": attention(softmax_of_log),
        "exp less log of sum": attention(softmax_of_log_sum),
    },
    "layer": {
        "MatMul and Add": Spelling(lambda w, h, _: w.layer(h, "layer")),
        "Gemm": Spelling(lambda w, h, _: gemm(w, h, transposed=False)),
        "Gemm, transposed": Spelling(lambda w, h, _: gemm(w, h, transposed=True)),
        "Conv": Spelling(lambda w, h, _: conv(w, h)),
        "scaled": Spelling(lambda w, h, _: scaled_layer(w, h, lambda w, *xs: w.op("Mul", w.op("MatMul", *xs), 2.0))),
        "FusedMatMul": Spelling(
            lambda w, h, _: scaled_layer(w, h, lambda w, *xs: w.op("FusedMatMul", *xs, domain=MICROSOFT, alpha=2.0))
        ),
        "Einsum": Spelling(lambda w, h, _: einsum_layer(w, h)),
    },
    "mean of tokens": {
        "ReduceMean": Spelling(lambda w, h, _: w.op("Add", h, w.reduce("ReduceMean", h, 1))),
        "ReduceSum": Spelling(lambda w, h, _: w.op("Add", h, w.op("Div", w.reduce("ReduceSum", h, 1), float(TOKENS)))),
        "GlobalAveragePool": Spelling(
            lambda w, h, _: w.op("Add", h, by_groups(w, h, lambda w, x: w.op("GlobalAveragePool", x)))
        ),
        "AveragePool": Spelling(
            lambda w, h, _: w.op("Add", h, by_groups(w, h, lambda w, x: w.op("AveragePool", x, kernel_shape=[TOKENS])))
        ),
    },
    "first token to all": {
        "Slice and Add": Spelling(lambda w, h, _: w.op("Add", h, w.op("Slice", h, *map(w.ints, (0, 1, 1))))),
        "Gather and Expand": Spelling(
            lambda w, h, _: w.op(
                "Add", h, w.op("Expand", w.op("Gather", h, w.ints(0), axis=1), w.ints(1, TOKENS, WIDTH))
            )
        ),
        "Gather and Tile": Spelling(
            lambda w, h, _: w.op("Add", h, w.op("Tile", w.op("Gather", h, w.ints(0), axis=1), w.ints(1, TOKENS, 1)))
        ),
    },
    "quotient": {
        "Div": Spelling(lambda w, h, _: w.op("Div", h, positive(w, h))),
        "Mul by Reciprocal": Spelling(lambda w, h, _: w.op("Mul", h, w.op("Reciprocal", positive(w, h)))),
    },
}

# Spellings that are not told from something else, and by which rule sets; each pair is compared as above.
APART: dict[str, tuple[tuple[Spelling, Spelling], tuple[str, ...]]] = {
    "the terms of a GELU written as a sum look like two signals that meet": (
        (
            one("Gelu"),
            Spelling(
                lambda w, h, _: w.op(
                    "Add", w.op("Mul", h, 0.5), halves(w, h, w.op("Erf", w.op("Div", h, math.sqrt(2))))
                )
            ),
        ),
        ("chefer1",),
    ),
    "the gate of another activation is known by its operator: Clip may as well be a ReLU6": (
        (
            gated(lambda w, x: w.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)),
            gated(lambda w, x: w.op("Div", clipped(w, x), 6.0)),
        ),
        ("conservative", "attnlrp", "attnlrp-vit", "pe-lrp", "chefer1"),
    ),
    "and a quotient may as well be a normalisation": (
        (
            gated(lambda w, x: w.op("Sigmoid", x)),
            gated(lambda w, x: w.op("Reciprocal", sigmoid_written_out(w, x))),
        ),
        ("conservative", "attnlrp", "attnlrp-vit", "pe-lrp"),
    ),
}
