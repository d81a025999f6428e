"""THE TABLE, quantised tensors: straight-through rules, which treat rounding as the identity.

An integer tensor q stands for the real numbers s (q - z). The gradient at q is that of a real q, so the chain rule
brings in the scales. Saturation and the choice of a dynamic scale are not differentiated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradskip_onnx.autodiff.emit import Sym
from gradskip_onnx.autodiff.factors import over, times

from .table import Gradient, Node, vjp
from .vjps_spatial import conv_to_image

Out = tuple[Gradient, ...]
STRAIGHT = "straight through: rounding counts as the identity"


def along_axis(n: Node, scale: Sym, rank: int) -> Sym:
    """A scale, or one per slice along `axis`, reshaped to broadcast against its tensor of this rank."""
    if n.attrs.get("block_size"):
        raise n.missing("a scale per block on the path of the gradient")
    if scale.rank != 1 or scale.dims[0] == 1:
        return scale.reshape(()) if scale.rank == 1 else scale
    axis = int(n.attrs.get("axis", 1)) % rank
    return scale.reshape(tuple(scale.dims[0] if i == axis else 1 for i in range(rank)))


def with_scale(n: Node, values: Sym, scale: Sym | None) -> Out:
    """Gradients of all inputs from those of the values and of the scale; that of a scale per slice is a sum."""
    found: list[Gradient] = [values, scale if n.needs_gradient[1] else None, *([None] * (len(n.x) - 2))]
    if n.needs_gradient[1] and scale is not None and n.x[1].rank == 1 and n.x[1].dims[0] != 1:
        axis = int(n.attrs.get("axis", 1)) % scale.rank
        found[1] = scale.sum([i for i in range(scale.rank) if i != axis], keepdims=False)
    return tuple(found)


@vjp("QuantizeLinear", note=STRAIGHT)
def quantize(n: Node, g: Sym) -> Out:
    """q = x/s + z: dx = dq / s, ds = -x dq / s²."""
    x, number = n.x[0], n.number(1)
    if number is not None and not n.needs_gradient[1]:
        return n.first(times(g, 1 / number).cast(x.dtype))
    scale = along_axis(n, n.x[1], x.rank).cast(g.dtype)
    dx = g / scale
    return with_scale(n, dx.cast(x.dtype), -(dx * x.cast(g.dtype) / scale))


@vjp("DequantizeLinear", note=STRAIGHT)
def dequantize(n: Node, g: Sym) -> Out:
    """x = s (q - z): dq = s dx, ds = (q - z) dx."""
    wide, number = g.cast(np.float32), n.number(1)
    if number is not None and not n.needs_gradient[1]:
        return n.first(times(wide, number))
    axis = int(n.attrs.get("axis", 1))
    shifted = wide * centred(n, 0, 2, axis) if n.needs_gradient[1] else None
    return with_scale(n, wide * along_axis(n, n.x[1], n.x[0].rank).cast(np.float32), shifted)


@vjp("DynamicQuantizeLinear", note=STRAIGHT)
def dynamic_quantize(n: Node, g: Sym | None, *_: Sym | None) -> Out:
    """q = x/s + z; s is computed from x, but not differentiated."""
    scale = n.emit.sym(n.ys[1])
    return (None if g is None else over(g, scale),)


def centred(n: Node, values: int, zero: int, axis: int | None) -> Sym:
    """q - z in float32; `values` and `zero` are input positions, zero points per slice are along `axis`."""
    q = n.x[values].cast(np.float32)
    z = n.x.get(zero)
    if z is None:
        return q
    shift = z.cast(np.float32)
    if shift.rank == 1 and shift.dims[0] != 1 and axis is not None:
        shift = shift.reshape(tuple(shift.dims[0] if i == axis % q.rank else 1 for i in range(q.rank)))
    return q - (shift.reshape(()) if shift.rank == 1 and shift.dims[0] == 1 else shift)


@vjp("MatMulInteger", note=STRAIGHT)
def matmul_integer(n: Node, g: Sym) -> Out:
    """y = (A - a)(B - b) with zero points a and b."""
    a, b = n.x[0], n.x[1]
    if min(a.rank, b.rank) < 2:
        raise n.missing("vectors")
    none: list[Any] = [None] * (len(n.x) - 2)
    da = g @ centred(n, 1, 3, -1).mT if n.needs_gradient[0] else None
    db = centred(n, 0, 2, -2).mT @ g if n.needs_gradient[1] else None
    return (da, db, *none)


@vjp("ConvInteger", note=STRAIGHT)
def conv_integer(n: Node, g: Sym) -> Out:
    if n.needs_gradient[1]:
        raise n.missing("a gradient at the kernel")
    return n.first(conv_to_image(n, g, centred(n, 1, 3, 0)))
