"""THE TABLE, normalisations and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gradskip_onnx.autodiff import dims as shapes
from gradskip_onnx.autodiff.emit import Sym

from .table import Gradient, Node, vjp
from .vjps_shape import fixed, integers

Out = tuple[Gradient, ...]
Back = Callable[[Sym, Sym, Sym, Sequence[int]], Sym]  # gradient q of h, h, 1 / std, axes -> gradient of x

CHANNEL_SCALE_OPSET = 21  # GroupNormalization: one scale per channel from here, per group before

# --- normalisations -------------------------------------------------------------------------------------------------


def statistics(x: Sym, axes: Sequence[int], epsilon: float) -> tuple[Sym, Sym]:
    """x - mean and 1 / std over `axes`, recomputed; in float32 for half precision, where squares overflow."""
    x = widened(x)
    centred = x - x.mean(axes)
    return centred, ((centred * centred).mean(axes) + epsilon).apply("Sqrt").apply("Reciprocal")


def widened(x: Sym) -> Sym:
    """`x` in float32 if it is in half precision, else `x` itself."""
    return x.cast(np.float32) if x.dtype == np.float16 else x


def standardise(q: Sym, x: Sym, axes: Sequence[int], epsilon: float, back: Back) -> tuple[Sym, Sym]:
    """The gradient of x, and h = (x - mean) / std, from the gradient `q` of h."""
    centred, inverse = statistics(x, axes, epsilon)
    h = centred * inverse
    return back(widened(q), h, inverse, axes).cast(x.dtype), h.cast(x.dtype)


def layer_statistics(n: Node) -> tuple[Sym, Sym]:
    """x - mean and 1 / std of a LayerNormalization, from its optional outputs if these are usable."""
    x = n.x[0]
    axis = n.attrs.get("axis", -1) % x.rank
    node = n.y.tensor.inputs[0]
    if x.dtype != np.float32 or not all(output.name for output in node.outputs):
        return statistics(x, range(axis, x.rank), n.attrs.get("epsilon", 1e-5))
    dims = shapes.reduced(x.dims, range(axis, x.rank), keepdims=True)
    mean, inverse = n.emit.more_outputs(node, [dims, dims], np.float32)
    return x - mean, inverse


@vjp("LayerNormalization")
def layer_norm(n: Node, g: Sym, *more: Sym | None) -> Out:
    """With c = x - mean and q = g scale: dx = (q - mean(q)) / std - c mean(q c) / std^3."""
    g = n.only_first(g, more)
    x = n.x[0]
    axes = range(n.attrs.get("axis", -1) % x.rank, x.rank)
    centred, inverse = layer_statistics(n)
    q = widened(g * n.x[1])
    along = (q * centred).mean(axes) * (inverse * inverse * inverse)
    gradient = (q - q.mean(axes)) * inverse - centred * along
    return (gradient.cast(x.dtype), g * (centred * inverse).cast(x.dtype), g)[: len(n.x)]


@vjp("InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization")
def channel_norm(n: Node, g: Sym) -> Out:
    return normalised(n, g, through_statistics)


def through_statistics(q: Sym, h: Sym, inverse: Sym, axes: Sequence[int]) -> Sym:
    """For h = (x - mean) / std and its gradient q: dx = (q - mean(q) - h mean(q h)) / std."""
    return inverse * (q - q.mean(axes) - h * (q * h).mean(axes))


def normalised(n: Node, g: Sym, back: Back) -> Out:
    """The gradients of a normalisation with statistics per image; `back` gives that of x from that of h."""
    return NORMALISED[n.op](n, g, back)


def instance_norm(n: Node, g: Sym, back: Back) -> Out:
    x = n.x[0]
    axes = range(2, x.rank)
    gradient, h = standardise(g * per_channel(n.x[1], x), x, axes, n.attrs.get("epsilon", 1e-5), back)
    return gradient, *channel_sums(g, h)


def group_norm(n: Node, g: Sym, back: Back) -> Out:
    x, scale = n.x[0], n.x[1]
    groups = n.attrs["num_groups"]
    inside = shapes.volume(x.dims[1:])
    grouped = (x.dims[0], groups, fixed(n, inside, "image size") // groups)
    if n.opset < CHANNEL_SCALE_OPSET:
        q = (g.reshape(grouped) * scale.reshape((1, groups, 1))).reshape_like(x)
    else:
        q = g * per_channel(scale, x)
    gradient, h = standardise(q.reshape(grouped), x.reshape(grouped), [2], n.attrs.get("epsilon", 1e-5), back)
    if n.opset < CHANNEL_SCALE_OPSET:
        return gradient.reshape_like(x), *channel_sums(g.reshape(grouped), h)
    return gradient.reshape_like(x), *channel_sums(g, h.reshape_like(x))


@vjp("BatchNormalization", note="inference only")
def batch_norm(n: Node, g: Sym, *more: Sym | None) -> Out:
    """y = s (x - m) / sqrt(v + eps) + b with constant m and v."""
    g = n.only_first(g, more)
    if n.attrs.get("training_mode", 0):
        raise n.missing("training mode")
    x, scale, _, mean, variance = (widened(x) for x in n.x)
    inverse = (variance + n.attrs.get("epsilon", 1e-5)).apply("Sqrt").apply("Reciprocal")
    q = widened(g)
    by_scale, by_bias = channel_sums(q, (x - per_channel(mean, x)) * per_channel(inverse, x))
    by_mean = -(by_bias * scale * inverse)
    by_variance = -0.5 * (by_scale * scale * inverse * inverse)
    return q * per_channel(scale * inverse, x), by_scale, by_bias, by_mean, by_variance


def per_channel(vector: Sym, x: Sym) -> Sym:
    """(C,) as (1, C, 1, ..) so that it broadcasts against `x`."""
    return vector.reshape((1, vector.dims[0], *(1,) * (x.rank - 2)))


def channel_sums(g: Sym, h: Sym) -> tuple[Sym, Sym]:
    """Gradients (C,) of scale and bias in y = scale h + bias."""
    axes = [axis for axis in range(g.rank) if axis != 1]
    return (g * h).sum(axes, keepdims=False), g.sum(axes, keepdims=False)


@vjp("RMSNormalization")
def rms_norm(n: Node, g: Sym) -> Out:
    """With h = x / rms and q = g scale: dx = (q - h mean(q h)) / rms."""
    x = n.x[0]
    axes = range(n.attrs.get("axis", -1) % x.rank, x.rank)
    wide, q = widened(x), widened(g * n.x[1])
    inverse = ((wide * wide).mean(axes) + n.attrs.get("epsilon", 1e-5)).apply("Sqrt").apply("Reciprocal")
    h = wide * inverse
    return (inverse * (q - h * (q * h).mean(axes))).cast(x.dtype), g * h.cast(x.dtype)


def mean_variance_norm(n: Node, g: Sym, back: Back) -> Out:
    return (standardise(g, n.x[0], n.attrs.get("axes", [0, 2, 3]), 1e-9, back)[0],)


NORMALISED = {
    "InstanceNormalization": instance_norm,
    "GroupNormalization": group_norm,
    "MeanVarianceNormalization": mean_variance_norm,
}


@vjp("LpNormalization")
def lp_norm(n: Node, g: Sym) -> Out:
    """y = x / r with the p-norm r: dx = (g - d sum(g y)) / r, d = dr/dx (sign x for p = 1, y for p = 2); 0 at r = 0."""
    x, axis = n.x[0], [n.attrs.get("axis", -1)]
    if n.attrs.get("p", 2) == 1:
        norm, slope = x.apply("Abs").sum(axis), x.apply("Sign")
    else:
        norm, slope = (x * x).sum(axis).apply("Sqrt"), n.y
    return (norm.equals(0).where(n.emit.const(0, g.dtype), (g - slope * (g * n.y).sum(axis)) / norm),)


# --- reductions -----------------------------------------------------------------------------------------------------


def reduced_axes(n: Node) -> tuple[int, ...]:
    """The axes that a reduction reduces, non-negative."""
    rank = n.x[0].rank
    axes = integers(n, 1, "axes")
    if not axes:
        return () if n.attrs.get("noop_with_empty_axes", 0) else tuple(range(rank))
    return shapes.axes(rank, axes)


def kept(n: Node, reduced: Sym) -> Sym:
    """A reduced tensor with its reduced axes as size one, so that it broadcasts against the input."""
    axes = reduced_axes(n)
    return reduced if n.attrs.get("keepdims", 1) or not axes else reduced.unsqueeze(*axes)


@vjp("ReduceSum")
def reduce_sum(n: Node, g: Sym) -> Out:
    return n.first(kept(n, g))


@vjp("ReduceMean")
def reduce_mean(n: Node, g: Sym) -> Out:
    x, axes = n.x[0], reduced_axes(n)
    count = shapes.volume(x.dims[axis] for axis in axes)
    if count is None:
        return n.first(kept(n, g) / n.emit.count(x, axes, g.dtype))
    return n.first(kept(n, g) * (1 / count))


@vjp("ReduceMax", "ReduceMin", note="ties share the gradient equally")
def reduce_extreme(n: Node, g: Sym) -> Out:
    hits = n.x[0].equals(kept(n, n.y)).cast(g.dtype)
    return n.first(kept(n, g) * hits / hits.sum(reduced_axes(n)))


@vjp("ReduceProd")
def reduce_prod(n: Node, g: Sym) -> Out:
    """dx_i = g times the product of the other elements: y / x_i without zeros; with one zero, only there not 0."""
    x, axes = n.x[0], reduced_axes(n)
    is_zero = x.equals(0)
    filled = is_zero.where(n.emit.const(1, x.dtype), x)
    zeros = is_zero.cast(x.dtype).sum(axes)
    others = n.emit.reduce("ReduceProd", filled, axes) / filled
    alone = is_zero.where(zeros.equals(1).where(others, 0), 0)
    return n.first(kept(n, g) * zeros.equals(0).where(others, alone))


@vjp("ReduceL1")
def reduce_l1(n: Node, g: Sym) -> Out:
    return n.first(kept(n, g) * n.x[0].apply("Sign"))


@vjp("ReduceL2", note="zero at the origin")
def reduce_l2(n: Node, g: Sym) -> Out:
    norm = kept(n, n.y)
    return n.first(norm.equals(0).where(n.emit.const(0, g.dtype), kept(n, g) * n.x[0] / norm))


@vjp("ReduceSumSquare")
def reduce_sum_square(n: Node, g: Sym) -> Out:
    return n.first(2 * (kept(n, g) * n.x[0]))


@vjp("ReduceLogSum")
def reduce_log_sum(n: Node, g: Sym) -> Out:
    return n.first(kept(n, g * (-n.y).apply("Exp")))


@vjp("ReduceLogSumExp")
def reduce_log_sum_exp(n: Node, g: Sym) -> Out:
    return n.first(kept(n, g) * (n.x[0] - kept(n, n.y)).apply("Exp"))
