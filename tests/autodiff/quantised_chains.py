"""Small graphs with quantised tensors in them, and the same functions in torch with rounding taken straight through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
import torch
from torch import Tensor

from tests.support.models import FLOAT, Writer, finish

OPSETS = (13, 17, 19, 21)
DIMS = (11, 6, 8)  # the input of every chain; the first size is hidden from the engine


@dataclass(frozen=True)
class Chain:
    """`write` appends the nodes behind input "x" and returns the output; `oracle` is the same for torch."""

    ops: tuple[str, ...]  # the rules it certifies
    write: Callable[[Writer], str]
    oracle: Callable[[Tensor], Tensor]
    dims: tuple[int, ...] = DIMS

    def model(self, opset: int) -> onnx.ModelProto:
        w = Writer(np.random.default_rng(0))
        w.op("Identity", self.write(w))
        w.nodes[-1].output[0] = "y"
        open_sizes = ["batch", *(f"size{axis}" for axis in range(1, len(self.dims)))]
        return finish(w, {"x": (FLOAT, ["batch", *self.dims[1:]])}, {"y": (FLOAT, open_sizes)}, opset)


def rounded(x: Tensor, scale: Tensor, zero: Tensor, low: int, high: int) -> Tensor:
    """The real numbers behind the quantised x, with the gradient of the identity."""
    on_grid = (torch.clamp(torch.round(x / scale) + zero, low, high) - zero) * scale
    return x + (on_grid - x).detach()


def random(*shape: int, seed: int) -> Tensor:
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32)).double()


def small_ints(*shape: int, seed: int) -> Tensor:
    """int8 within 7 bits: full-range products saturate on processors without VNNI."""
    return torch.tensor(np.random.default_rng(seed).integers(-64, 64, shape, dtype=np.int8))


WEIGHT, INTS, KERNEL = random(8, 5, seed=1), small_ints(8, 5, seed=2), small_ints(4, 1, 3, 3, seed=3)
S, Z = 0.04, 120
CHANNEL_SCALES = torch.tensor([0.02, 0.03, 0.05, 0.04, 0.06, 0.07])
COLUMN_ZEROS = torch.tensor([1, -2, 3, 0, 5], dtype=torch.int8)


def f32(w: Writer, value: object) -> str:
    return w.const(np.asarray(value), np.float32)


def u8(w: Writer, value: int) -> str:
    return w.const(value, np.uint8)


def per_tensor(w: Writer) -> str:
    q = w.op("QuantizeLinear", "x", f32(w, S), u8(w, Z))
    return w.op("MatMul", w.op("DequantizeLinear", q, f32(w, S), u8(w, Z)), f32(w, WEIGHT))


def per_tensor_torch(x: Tensor) -> Tensor:
    return rounded(x, torch.tensor(S), torch.tensor(Z), 0, 255) @ WEIGHT


def per_channel(w: Writer) -> str:
    zeros = w.const(np.zeros(6), np.int8)
    q = w.op("QuantizeLinear", "x", f32(w, CHANNEL_SCALES), zeros, axis=1)
    turned = w.op("Transpose", w.op("DequantizeLinear", q, f32(w, CHANNEL_SCALES), zeros, axis=1), perm=[0, 2, 1])
    return w.op("Mul", turned, turned)


def per_channel_torch(x: Tensor) -> Tensor:
    return rounded(x, CHANNEL_SCALES[:, None].double(), torch.tensor(0), -128, 127).transpose(1, 2) ** 2


def moved_as_integers(w: Writer) -> str:
    """Layout changes on the integers themselves, as QOperator files have them."""
    q = w.op("QuantizeLinear", "x", f32(w, S), u8(w, Z))
    moved = w.op("Reshape", w.op("Transpose", q, perm=[0, 2, 1]), w.ints(0, 4, 12))
    return w.op("Exp", w.op("DequantizeLinear", moved, f32(w, S), u8(w, Z)))


def moved_as_integers_torch(x: Tensor) -> Tensor:
    return torch.exp(rounded(x, torch.tensor(S), torch.tensor(Z), 0, 255).transpose(1, 2).reshape(-1, 4, 12))


def dynamic(w: Writer) -> str:
    """What dynamic quantisation writes: an integer product, scaled back."""
    q, scale, zero = w.ops("DynamicQuantizeLinear", 3, "x")
    product = w.op("MatMulInteger", q, w.const(INTS, np.int8), zero, w.const(COLUMN_ZEROS, np.int8))
    return w.op("Mul", w.op("Cast", product, to=FLOAT), w.op("Mul", scale, f32(w, 0.01)))


def dynamic_torch(x: Tensor) -> Tensor:
    return dynamically_rounded(x) @ (0.01 * (INTS.double() - COLUMN_ZEROS.double()))


def dynamically_rounded(x: Tensor) -> Tensor:
    low, high = min(x.min().item(), 0.0), max(x.max().item(), 0.0)
    scale = torch.tensor((high - low) / 255)
    zero = torch.clamp(torch.round(-low / scale), 0, 255)
    return rounded(x, scale, zero, 0, 255)


def two_activations(w: Writer) -> str:
    """Both factors follow from the input."""
    left = w.op("QuantizeLinear", "x", f32(w, S), u8(w, Z))
    half = w.op("Transpose", w.op("Mul", "x", f32(w, 0.5)), perm=[0, 2, 1])
    right = w.op("QuantizeLinear", half, f32(w, S), w.const(3, np.int8))
    product = w.op("Cast", w.op("MatMulInteger", left, right, u8(w, Z), w.const(3, np.int8)), to=FLOAT)
    return w.op("Mul", product, f32(w, S * S))


def two_activations_torch(x: Tensor) -> Tensor:
    left = rounded(x, torch.tensor(S), torch.tensor(Z), 0, 255)
    return left @ rounded(0.5 * x.transpose(1, 2), torch.tensor(S), torch.tensor(3), -128, 127)


def dynamic_conv(w: Writer) -> str:
    q, scale, zero = w.ops("DynamicQuantizeLinear", 3, "x")
    attrs = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2], "group": 4}
    product = w.op("ConvInteger", q, w.const(KERNEL, np.int8), zero, **attrs)
    return w.op("Mul", w.op("Cast", product, to=FLOAT), scale)


def dynamic_conv_torch(x: Tensor) -> Tensor:
    return torch.conv2d(dynamically_rounded(x), KERNEL.double(), stride=2, padding=1, groups=4)


QDQ = ("QuantizeLinear", "DequantizeLinear")
CHAINS = {
    "per tensor": Chain(QDQ, per_tensor, per_tensor_torch),
    "per channel": Chain(QDQ, per_channel, per_channel_torch),
    "moved as integers": Chain(QDQ, moved_as_integers, moved_as_integers_torch),
    "dynamic": Chain(("DynamicQuantizeLinear", "MatMulInteger"), dynamic, dynamic_torch),
    "two activations": Chain(("MatMulInteger", "QuantizeLinear"), two_activations, two_activations_torch),
    "dynamic convolution": Chain(
        ("ConvInteger", "DynamicQuantizeLinear"), dynamic_conv, dynamic_conv_torch, (11, 4, 6, 6)
    ),
}
QUANTISED_OPS = {op for chain in CHAINS.values() for op in chain.ops}
