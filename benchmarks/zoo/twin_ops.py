"""ONNX operators in torch, for the twins of quantised files; a quantised tensor is held as the real number it means.

Rounding has the straight-through gradient, one everywhere, and scales count as constants. Since quantised tensors are
real numbers here, operators that only move entries need no second form, and QLinear ones are the plain ones between
`real` and `fake`. An integer tensor that a file stores is still integers: `real` tells them by their type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

Attrs = Mapping[str, Any]
Op = Callable[..., Any]  # (attributes, *inputs) -> a tensor or a tuple of them


def real(x: Tensor, scale: Tensor, zero: Tensor | None = None, axis: int = 1, block: int = 0) -> Tensor:
    """What a quantised tensor means."""
    if x.is_floating_point():
        return x
    centre = x.float() if zero is None else x.float() - _along(zero.float(), x, axis, block)
    return centre * _along(scale, x, axis, block)


def _along(parameter: Tensor, x: Tensor, axis: int, block: int) -> Tensor:
    """Scales or zero points of a tensor, of its slices or of its blocks, in a shape that broadcasts with it."""
    if block:
        return parameter.repeat_interleave(block, dim=axis).narrow(axis, 0, x.shape[axis])
    if parameter.numel() == 1:
        return parameter.reshape(())
    return parameter.reshape([-1 if place == axis % x.ndim else 1 for place in range(x.ndim)])


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Where a tensor was rounded to, and what it was before."""

    step: Tensor
    centre: Tensor
    before: Tensor

    def rounded(self, whole: Tensor) -> Tensor:
        """The real number of each place on the grid, with the gradient of not rounding."""
        straight = self.before + ((whole - self.centre) * self.step - self.before).detach()
        straight.grid = self  # type: ignore[attr-defined]
        return straight

    def places(self, x: Tensor) -> Tensor:
        return torch.round(x.detach() / self.step) + self.centre

    def moved(self, tensor: Tensor) -> Tensor:
        """A tensor made of entries of one on this grid lies on it too."""
        if self.step.numel() == 1:
            tensor.grid = Grid(self.step, self.centre, tensor)  # type: ignore[attr-defined]
        return tensor

    def cut(self, tensor: Tensor) -> Tensor:
        """Mixtures of whole numbers, stored as whole numbers: ONNX Runtime drops what comes after the point."""
        return Grid(self.step, self.centre, tensor).rounded(torch.floor(tensor.detach() / self.step + self.centre))


def fake(x: Tensor, scale: Tensor, zero: Tensor, axis: int = 1) -> Tensor:
    """Rounded to the steps of a quantised type; the result knows its `grid`."""
    limits = torch.iinfo(zero.dtype)
    grid = Grid(_along(scale, x, axis, 0), _along(zero.float(), x, axis, 0), x)
    return grid.rounded(grid.places(x).clamp(limits.min, limits.max))


def pinned(rounded: Tensor, stored: Tensor) -> Tensor:
    """A rounded tensor with the integers a file has there. They may be one step off: sums come in another order, and
    ONNX Runtime adds and multiplies bytes in fixed point. More is another computation."""
    grid: Grid = rounded.grid  # type: ignore[attr-defined]
    away = float((grid.places(rounded) - stored.float()).abs().max())
    if away > 1:
        raise RuntimeError(f"{away:.0f} steps away from the file's own")
    exact = grid.rounded(stored.float())
    if hasattr(rounded, "scale"):
        exact.scale = rounded.scale  # type: ignore[attr-defined]
    return exact


def dequantise(attrs: Attrs, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """A tensor of its own: what follows computes with real numbers and knows no grid."""
    means = real(x, scale, zero, attrs.get("axis", 1), attrs.get("block_size", 0))
    return means.view_as(means)


def dynamic(_: Attrs, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    low, high = x.detach().min().clamp(max=0), x.detach().max().clamp(min=0)
    scale = (high - low) / 255
    zero = torch.round(-low / scale).clamp(0, 255).to(torch.uint8)
    quantised = fake(x, scale, zero)
    quantised.scale = scale  # type: ignore[attr-defined]  # integer products need it to count in steps
    return quantised, scale, zero


def steps(x: Tensor, zero: Tensor | None, axis: int) -> Tensor:
    """A quantised tensor as a whole number of steps from its zero point."""
    scale: Tensor | None = getattr(x, "scale", None)
    if scale is not None:
        return x / scale
    return x.float() if zero is None else x.float() - _along(zero.float(), x, axis, 0)


def conv(attrs: Attrs, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    pads = list(attrs.get("pads", [0] * 4))
    padded = functional.pad(x, (pads[1], pads[3], pads[0], pads[2]))
    sides = {"stride": attrs.get("strides", [1, 1]), "dilation": attrs.get("dilations", [1, 1])}
    return functional.conv2d(padded, weight, bias, groups=attrs.get("group", 1), **sides)


def gemm(attrs: Attrs, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    product: Tensor = attrs.get("alpha", 1.0) * (
        (a.mT if attrs.get("transA") else a) @ (b.mT if attrs.get("transB") else b)
    )
    return product if c is None else product + attrs.get("beta", 1.0) * c


def slice_(
    _: Attrs, x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None, strides: Tensor | None = None
) -> Tensor:
    every = [slice(None)] * x.ndim
    jumps = [1] * len(starts) if strides is None else strides.tolist()
    places = list(range(len(starts))) if axes is None else axes.tolist()
    for start, end, axis, jump in zip(starts.tolist(), ends.tolist(), places, jumps, strict=True):
        most = x.shape[axis]
        every[axis] = slice(max(start, -most), max(min(end, most), -most), jump)
    return x[tuple(every)]


def reshape(_: Attrs, x: Tensor, shape: Tensor) -> Tensor:
    return x.reshape([x.shape[place] if side == 0 else side for place, side in enumerate(shape.tolist())])


def unsqueeze(_: Attrs, x: Tensor, axes: Tensor) -> Tensor:
    for axis in sorted(axes.flatten().tolist()):
        x = x.unsqueeze(axis)
    return x


def split(attrs: Attrs, x: Tensor, sizes: Tensor | None = None) -> tuple[Tensor, ...]:
    axis = attrs.get("axis", 0)
    parts = [x.shape[axis] // attrs["outputs"]] * attrs["outputs"] if sizes is None else sizes.tolist()
    return torch.split(x, parts, dim=axis)


HALF_PIXEL = ("half_pixel", "pytorch_half_pixel")  # they differ for a side of 1 alone


def resize(attrs: Attrs, x: Tensor, _roi: Any, scales: Tensor | None, sizes: Tensor | None = None) -> Tensor:
    if attrs.get("mode") != "linear" or attrs.get("coordinate_transformation_mode") not in HALF_PIXEL:
        raise NotImplementedError(f"Resize with {dict(attrs)}")
    factors = [] if scales is None else scales.tolist()
    target = [round(f * n) for f, n in zip(factors, x.shape, strict=True)] if sizes is None else sizes.tolist()
    made = functional.interpolate(x, size=target[2:], mode="bilinear", align_corners=False)
    return made if not hasattr(x, "grid") else x.grid.cut(made)


def gather(attrs: Attrs, x: Tensor, places: Tensor) -> Tensor:
    axis = attrs.get("axis", 0) % x.ndim
    wrapped = places.long() % x.shape[axis]
    taken = x.index_select(axis, wrapped.flatten())
    return taken.reshape([*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]])


def layer_norm(attrs: Attrs, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return functional.layer_norm(x, weight.shape, weight, bias, attrs.get("epsilon", 1e-5))


def reduce_mean(attrs: Attrs, x: Tensor, axes: Tensor | None = None) -> Tensor:
    over = attrs["axes"] if axes is None else axes.tolist()
    return x.mean(list(over), keepdim=bool(attrs.get("keepdims", 1)))


def nibbles(attrs: Attrs, x: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    """MatMulNBits: two weights a byte, the low one first, symmetric about 8."""
    if attrs.get("bits", 4) != 4:
        raise NotImplementedError(f"MatMulNBits with {attrs.get('bits')} bits")
    count, length, block = attrs["N"], attrs["K"], attrs["block_size"]
    whole = torch.stack([packed & 15, packed >> 4], dim=-1).reshape(count, -1).float() - 8
    weight = whole * scales.reshape(count, -1).repeat_interleave(block, dim=1)
    return x @ weight[:, :length].mT


def qlinear(plain: Callable[..., Tensor]) -> Op:
    """A QLinear form of two operands: real, computed, fake."""

    def op(
        attrs: Attrs, a: Tensor, sa: Tensor, za: Tensor, b: Tensor, sb: Tensor, zb: Tensor, s: Tensor, z: Tensor
    ) -> Tensor:
        return fake(plain(attrs, real(a, sa, za), real(b, sb, zb)), s, z)

    return op


def qconv(attrs: Attrs, *q: Tensor) -> Tensor:
    x, sx, zx, w, sw, zw, s, z, *bias = q
    offset = (bias[0].float() * sx * sw) if bias else None
    return fake(conv(attrs, real(x, sx, zx), real(w, sw, zw, axis=0), offset), s, z)


def qgemm(attrs: Attrs, *q: Tensor) -> Tensor:
    a, sa, za, b, sb, zb, c, s, z = q
    return fake(gemm(attrs, real(a, sa, za), real(b, sb, zb), None if c is None else c.float() * sa * sb), s, z)


def qconcat(attrs: Attrs, s: Tensor, z: Tensor, *q: Tensor) -> Tensor:
    parts = [real(q[at], q[at + 1], q[at + 2]) for at in range(0, len(q), 3)]
    return fake(torch.cat(parts, dim=attrs["axis"]), s, z)


def matmul(_: Attrs, a: Tensor, b: Tensor) -> Tensor:
    return a @ b


def cast(attrs: Attrs, x: Tensor) -> Tensor:
    kinds = {1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool}
    return x if x.is_floating_point() and attrs["to"] == 1 else x.to(kinds[attrs["to"]])


def divide(_: Attrs, a: Tensor, b: Tensor) -> Tensor:
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def filled(attrs: Attrs, shape: Tensor) -> Tensor:
    value = np.asarray(attrs.get("value", np.zeros(1, np.float32)))
    return torch.from_numpy(np.full(shape.tolist(), value.item(), value.dtype))


def pad(attrs: Attrs, x: Tensor, widths: Tensor, value: Tensor | None = None, axes: Tensor | None = None) -> Tensor:
    if attrs.get("mode", "constant") != "constant" or axes is not None:
        raise NotImplementedError(f"Pad with {dict(attrs)}")
    pairs: Sequence[int] = widths.tolist()
    order = [pairs[place + side * x.ndim] for place in reversed(range(x.ndim)) for side in (0, 1)]
    return functional.pad(x, order, value=0.0 if value is None else float(value))


# Operators whose results are entries of their first operand; those of integers stay on its grid.
MOVERS = frozenset({"Identity", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Split", "Slice", "Gather"})

OPS: dict[str, Op] = {
    "Add": lambda _, a, b: a + b,
    "Sub": lambda _, a, b: a - b,
    "Mul": lambda _, a, b: a * b,
    "Div": divide,
    "Pow": lambda _, a, b: a**b,
    "Mod": lambda _, a, b: a % b,
    "Neg": lambda _, x: -x,
    "Sqrt": lambda _, x: x.sqrt(),
    "Reciprocal": lambda _, x: 1 / x,
    "Erf": lambda _, x: torch.erf(x),
    "Tanh": lambda _, x: torch.tanh(x),
    "Sigmoid": lambda _, x: torch.sigmoid(x),
    "Relu": lambda _, x: torch.relu(x),
    "Gelu": lambda attrs, x: functional.gelu(x, approximate=attrs.get("approximate", "none")),
    "IsNaN": lambda _, x: torch.isnan(x),
    "Equal": lambda _, a, b: a == b,
    "And": lambda _, a, b: a & b,
    "Where": lambda _, c, a, b: torch.where(c, a, b),
    "Softmax": lambda attrs, x: x.softmax(attrs.get("axis", -1)),
    "MatMul": matmul,
    "Gemm": gemm,
    "Conv": conv,
    "LayerNormalization": layer_norm,
    "ReduceMean": reduce_mean,
    "Resize": resize,
    "Identity": lambda _, x: x,
    "Cast": cast,
    "Transpose": lambda attrs, x: x.permute(attrs["perm"]),
    "Reshape": reshape,
    "Flatten": lambda attrs, x: x.flatten(attrs.get("axis", 1)),
    "Squeeze": lambda _, x, axes=None: x.squeeze() if axes is None else x.squeeze(tuple(axes.tolist())),
    "Unsqueeze": unsqueeze,
    "Concat": lambda attrs, *x: torch.cat(x, dim=attrs["axis"]),
    "Split": split,
    "Slice": slice_,
    "Gather": gather,
    "Expand": lambda _, x, shape: x * x.new_ones(shape.tolist()),
    "Pad": pad,
    "Shape": lambda attrs, x: torch.tensor(x.shape[attrs.get("start", 0) : attrs.get("end", x.ndim)]),
    "Range": lambda _, a, b, c: torch.arange(a.item(), b.item(), c.item()),
    "ConstantOfShape": filled,
    "QuantizeLinear": lambda attrs, x, s, z: fake(x, s, z, attrs.get("axis", 1)),
    "DequantizeLinear": dequantise,
    "DynamicQuantizeLinear": dynamic,
    "MatMulInteger": lambda _, a, b, za=None, zb=None: steps(a, za, -1) @ steps(b, zb, -1),
    "ConvInteger": lambda attrs, a, b, za=None, zb=None: conv(attrs, steps(a, za, 1), steps(b, zb, 0)),
    "QLinearMatMul": qlinear(matmul),
    "QLinearAdd": qlinear(lambda _, a, b: a + b),
    "QLinearMul": qlinear(lambda _, a, b: a * b),
    "QLinearSoftmax": lambda attrs, x, sx, zx, s, z: fake(real(x, sx, zx).softmax(attrs.get("axis", -1)), s, z),
    "QLinearSigmoid": lambda _, x, sx, zx, s, z: fake(torch.sigmoid(real(x, sx, zx)), s, z),
    "QLinearConcat": qconcat,
    "QLinearConv": qconv,
    "QGemm": qgemm,
    "MatMulNBits": nibbles,
}
