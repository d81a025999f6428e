"""What the table of spellings is made of: a writer with short words, and pieces of functions.

A spelling takes the writer, tokens `h` (batch, tokens, WIDTH) and an earlier stream `e` of the same shape, and returns
tokens; weights go by their name, so that all spellings of a function have the same.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.models import Writer

TOKENS, WIDTH = 5, 8
EPSILON = 1e-5
TINY = 1e-9  # MeanVarianceNormalization has no other
SCALE = 0.05  # of scores: attention that is neither even nor on one token
MICROSOFT = "com.microsoft"
Text = Callable[["Pen", str, str], str]


class Pen(Writer):
    """A writer with short words for what spellings are made of; numbers among inputs become constants."""

    def op(self, kind: str, *inputs: Any, **attrs: Any) -> str:
        names = [entry if isinstance(entry, str) else self.const(entry, np.float32) for entry in inputs]
        return super().op(kind, *names, **attrs)

    def reduce(self, kind: str, x: str, *axes: int) -> str:
        return super().op(kind, x, self.ints(*(axes or (-1,))), keepdims=1)

    def named(self, name: str, *shape: int, mean: float = 0.0) -> str:
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        return self.const(mean + 0.5 * rng.standard_normal(shape), np.float32)

    def layer(self, x: str, name: str) -> str:
        return self.op("Add", self.op("MatMul", x, self.named(name, WIDTH, WIDTH)), self.named(name + "/bias", WIDTH))

    @property
    def gain(self) -> str:
        return self.named("gain", WIDTH, mean=1.0)

    @property
    def bias(self) -> str:
        return self.named("bias", WIDTH)


@dataclass(frozen=True)
class Spelling:
    """One way to write a function, and the opset it needs."""

    text: Text
    opset: int = 20


def one(kind: str, *more: Any, opset: int = 20, **attrs: Any) -> Spelling:
    """A single operator."""
    return Spelling(lambda w, h, _: w.op(kind, h, *more, **attrs), opset)


# --- gates ----------------------------------------------------------------------------------------------------------


def erf_gate(w: Pen, h: str) -> str:
    return w.op("Add", w.op("Erf", w.op("Div", h, math.sqrt(2))), 1.0)


def tanh_gate(w: Pen, h: str, cube: str) -> str:
    inner = w.op("Mul", w.op("Add", h, w.op("Mul", cube, 0.044715)), math.sqrt(2 / math.pi))
    return w.op("Add", w.op("Tanh", inner), 1.0)


def halves(w: Pen, x: str, gate: str) -> str:
    return w.op("Mul", w.op("Mul", x, 0.5), gate)


def sigmoid_written_out(w: Pen, h: str) -> str:
    return w.op("Add", w.op("Exp", w.op("Neg", h)), 1.0)


def clipped(w: Pen, h: str) -> str:
    return w.op("Clip", w.op("Add", h, 3.0), 0.0, 6.0)


def relu6(w: Pen, h: str) -> str:
    return w.op("Min", w.op("Relu", h), 6.0)


def softplus(w: Pen, h: str) -> str:
    return w.op("Log", w.op("Add", w.op("Exp", h), 1.0))


# --- normalisations -------------------------------------------------------------------------------------------------


def affine(w: Pen, x: str) -> str:
    return w.op("Add", w.op("Mul", x, w.gain), w.bias)


def centred(w: Pen, h: str) -> str:
    return w.op("Sub", h, w.reduce("ReduceMean", h))


def shifted(w: Pen, variance: str) -> str:
    return w.op("Add", variance, EPSILON)


def squares(w: Pen, x: str, power: bool = False) -> str:
    return w.op("Pow", x, 2.0) if power else w.op("Mul", x, x)


def layer_norm(spread: Callable[[Pen, str, str], str]) -> Spelling:
    """`spread` divides the centred tokens by the root of the variance."""

    def text(w: Pen, h: str, _: str) -> str:
        c = centred(w, h)
        return affine(w, spread(w, c, shifted(w, w.reduce("ReduceMean", squares(w, c, power=True)))))

    return Spelling(text)


def layer_norm_by_moments(w: Pen, h: str, _: str) -> str:
    """The variance as E[x²] - E[x]²."""
    mean = w.reduce("ReduceMean", h)
    variance = w.op("Sub", w.reduce("ReduceMean", squares(w, h)), squares(w, mean))
    return affine(w, w.op("Div", w.op("Sub", h, mean), w.op("Sqrt", shifted(w, variance))))


def by_groups(w: Pen, h: str, text: Callable[[Pen, str], str]) -> str:
    """Tokens as channels first, and back."""
    return w.op("Transpose", text(w, w.op("Transpose", h, perm=[0, 2, 1])), perm=[0, 2, 1])


def group_norm_written_out(w: Pen, x: str) -> str:
    """Two groups of channels, each normalised over its channels and tokens."""
    grouped = w.op("Reshape", x, w.ints(0, 2, -1))
    c = centred(w, grouped)
    h = w.op("Div", c, w.op("Sqrt", shifted(w, w.reduce("ReduceMean", squares(w, c)))))
    back = w.op("Reshape", h, w.ints(0, WIDTH, TOKENS))
    gain, bias = (w.op("Unsqueeze", tensor, w.ints(1)) for tensor in (w.gain, w.bias))
    return w.op("Add", w.op("Mul", back, gain), bias)


def group_norm(w: Pen, x: str) -> str:
    return w.op("GroupNormalization", x, w.gain, w.bias, num_groups=2, epsilon=EPSILON)


def instance_norm_written_out(w: Pen, x: str) -> str:
    c = centred(w, x)
    h = w.op("Mul", c, w.op("Pow", w.op("Add", w.reduce("ReduceMean", squares(w, c)), TINY), -0.5))
    gain, bias = (w.op("Unsqueeze", tensor, w.ints(1)) for tensor in (w.gain, w.bias))
    return w.op("Add", w.op("Mul", h, gain), bias)


def rms(w: Pen, h: str) -> str:
    return shifted(w, w.reduce("ReduceMean", squares(w, h, power=True)))


def over_norm(divisor: Callable[[Pen, str], str]) -> Spelling:
    """Tokens over their length, times a gain."""
    return Spelling(lambda w, h, _: w.op("Mul", w.op("Div", h, divisor(w, h)), w.gain))


# --- softmax and attention ------------------------------------------------------------------------------------------


def attention(softmax: Callable[[Pen, str], str], einsum: bool = False) -> Spelling:
    """One head whose weights `softmax` makes, its products as matrices or by letters."""

    def text(w: Pen, h: str, _: str) -> str:
        q, k, v = (w.layer(h, name) for name in ("query", "key", "value"))
        if einsum:
            scores = w.op("Einsum", q, k, equation="bqd,bkd->bqk")
            return w.op("Einsum", softmax(w, w.op("Mul", scores, SCALE)), v, equation="bqk,bkd->bqd")
        scores = w.op("MatMul", q, w.op("Transpose", k, perm=[0, 2, 1]))
        return w.op("MatMul", softmax(w, w.op("Mul", scores, SCALE)), v)

    return Spelling(text)


def softmax(w: Pen, x: str) -> str:
    return w.op("Softmax", x, axis=-1)


def softmax_of_exp(w: Pen, x: str) -> str:
    e = w.op("Exp", x)
    return w.op("Div", e, w.reduce("ReduceSum", e))


def softmax_less_maximum(w: Pen, x: str) -> str:
    return softmax_of_exp(w, w.op("Sub", x, w.reduce("ReduceMax", x)))


def softmax_less_largest(w: Pen, x: str) -> str:
    """The maximum over everything."""
    return softmax_of_exp(w, w.op("Sub", x, w.reduce("ReduceMax", x, 1, 2)))


def softmax_by_reciprocal(w: Pen, x: str) -> str:
    e = w.op("Exp", x)
    return w.op("Mul", e, w.op("Reciprocal", w.reduce("ReduceSum", e)))


def softmax_of_log(w: Pen, x: str) -> str:
    return w.op("Exp", w.op("LogSoftmax", x, axis=-1))


def softmax_of_log_sum(w: Pen, x: str) -> str:
    return w.op("Exp", w.op("Sub", x, w.reduce("ReduceLogSumExp", x)))


# --- layers ---------------------------------------------------------------------------------------------------------


def gemm(w: Pen, h: str, transposed: bool) -> str:
    rows, weight = w.op("Reshape", h, w.ints(-1, WIDTH)), w.named("layer", WIDTH, WIDTH)
    weight = w.op("Transpose", weight, perm=[1, 0]) if transposed else weight
    y = w.op("Gemm", rows, weight, w.named("layer/bias", WIDTH), transB=int(transposed))
    return w.op("Reshape", y, w.ints(-1, TOKENS, WIDTH))


def conv(w: Pen, h: str) -> str:
    weight = w.op("Unsqueeze", w.op("Transpose", w.named("layer", WIDTH, WIDTH), perm=[1, 0]), w.ints(2))
    return by_groups(w, h, lambda w, x: w.op("Conv", x, weight, w.named("layer/bias", WIDTH), kernel_shape=[1]))


def einsum_layer(w: Pen, h: str) -> str:
    y = w.op("Einsum", h, w.named("layer", WIDTH, WIDTH), equation="btw,wv->btv")
    return w.op("Add", y, w.named("layer/bias", WIDTH))


def scaled_layer(w: Pen, h: str, twice: Callable[..., str]) -> str:
    """A factor of the input that an optimiser moved behind the product."""
    y = twice(w, h, w.op("Mul", w.named("layer", WIDTH, WIDTH), 0.5))
    return w.op("Add", y, w.named("layer/bias", WIDTH))


def positive(w: Pen, h: str) -> str:
    """Another activation, at least 1."""
    return w.op("Add", w.op("Abs", w.layer(h, "other")), 1.0)


def gated(gate: Callable[[Pen, str], str]) -> Spelling:
    """An activation times the gate of another one."""
    return Spelling(lambda w, h, _: w.op("Mul", h, gate(w, w.layer(h, "other"))))
