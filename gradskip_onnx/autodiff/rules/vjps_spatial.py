"""THE TABLE, operators over image axes: convolution, pooling, resizing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import le

import numpy as np
import onnx
from onnx import TensorProto, helper

from gradskip_onnx.autodiff.emit import Sym
from gradskip_onnx.runtime.session import open_session
from gradskip_onnx.types import Array

from .table import Gradient, Node, vjp
from .vjps_shape import fixed

Out = tuple[Gradient, ...]

IR_VERSION = 8  # of the one-node models evaluated here: every supported ONNX Runtime reads it


@dataclass(frozen=True, slots=True)
class Window:
    """Geometry of a sliding window over the image axes; auto_pad is resolved to pads."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]

    def span(self, axis: int) -> int:
        """The extent of the dilated window in pixels."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1

    @property
    def slides_back(self) -> bool:
        """Whether the transpose of a convolution by single steps is one, too: with the flipped kernel and `back`."""
        widest = [self.span(axis) - 1 for axis in range(len(self.kernel))]
        return set(self.strides) == {1} and all(map(le, [*self.before, *self.after], widest * 2))

    @property
    def back(self) -> Window:
        """The window with the padding of the transposed convolution."""
        before, after = ([self.span(i) - 1 - pad for i, pad in enumerate(pads)] for pads in (self.before, self.after))
        return replace(self, before=before, after=after)

    @property
    def attrs(self) -> dict[str, list[int]]:
        return {
            "kernel_shape": self.kernel,
            "strides": self.strides,
            "dilations": self.dilations,
            "pads": [*self.before, *self.after],
        }


def window(n: Node, kernel: Sequence[int | None], fine: Sequence[int | None], coarse: Sequence[int | None]) -> Window:
    """The window between a fine image (Conv's input) and a coarse one (its output)."""
    sizes = [fixed(n, size, "kernel") for size in kernel]
    rank = len(sizes)
    strides, dilations = n.attrs.get("strides", [1] * rank), n.attrs.get("dilations", [1] * rank)
    pads = list(n.attrs.get("pads", [0] * (2 * rank)))
    result = Window(sizes, list(strides), list(dilations), pads[:rank], pads[rank:])
    mode = n.attrs.get("auto_pad", "NOTSET")
    if mode.startswith("SAME"):
        for axis in range(rank):
            steps = (fixed(n, coarse[axis], "image size") - 1) * strides[axis]
            missing = max(0, steps + result.span(axis) - fixed(n, fine[axis], "image size"))
            small, large = missing // 2, missing - missing // 2
            result.before[axis], result.after[axis] = (small, large) if mode == "SAME_UPPER" else (large, small)
    return result


@vjp("Conv", note="gradient of the image and the bias; fixed image size; none for the kernel")
def conv(n: Node, g: Sym) -> Out:
    if n.needs_gradient[1]:
        raise n.missing("a gradient at the kernel")
    return (conv_to_image(n, g, n.x[1]), None, g.sum([0, *range(2, g.rank)], keepdims=False))[: len(n.x)]


def conv_to_image(n: Node, g: Sym, kernel: Sym) -> Sym:
    """The gradient at the image of a convolution with `kernel`."""
    x = n.x[0]
    factors = _channels_and_places(g)
    if factors is not None and _pixel_by_pixel(n, kernel):
        channels, places = factors
        pixel = (x.dims[0], x.dims[1], *(1 for _ in x.dims[2:]))
        return n.emit.op("ConvTranspose", channels, kernel, dims=pixel) * places
    w = window(n, kernel.dims[2:], x.dims[2:], g.dims[2:])
    if _channel_by_channel(n, kernel) and w.slides_back:
        return n.emit.op("Conv", g, kernel.flipped(range(2, x.rank)), dims=x.dims, group=x.dims[1], **w.back.attrs)
    rest = [
        fixed(n, x.dims[2 + i], "image size") + w.before[i] + w.after[i]
        - (fixed(n, g.dims[2 + i], "image size") - 1) * w.strides[i] - w.span(i)
        for i in range(x.rank - 2)
    ]  # fmt: skip
    group = n.attrs.get("group", 1)
    return n.emit.op("ConvTranspose", g, kernel, dims=x.dims, group=group, output_padding=rest, **w.attrs)


def _channels_and_places(g: Sym) -> tuple[Sym, Sym] | None:
    """(B, C, 1, ..) and (B, 1, h, ..) if g was written as their product, as the gradient of one class is."""
    node = g.tensor.inputs[0] if g.tensor.inputs else None
    if node is None or node.op != "Mul" or not g.emit.wrote(node) or not all(map(g.emit.has, node.inputs)):
        return None
    one, other = (g.emit.as_sym(tensor) for tensor in node.inputs)
    for channels, places in ((one, other), (other, one)):
        if channels.rank == places.rank == g.rank and places.dims[1] == 1 and set(channels.dims[2:]) == {1}:
            return channels, places
    return None


def _channel_by_channel(n: Node, kernel: Sym) -> bool:
    """Whether a convolution mixes no channels: ONNX Runtime has a kernel for it, but none for its transpose."""
    return kernel.dims[1] == 1 and n.x[0].dims[1] == n.attrs.get("group", 1) == kernel.dims[0]


def _pixel_by_pixel(n: Node, kernel: Sym) -> bool:
    """Whether a convolution mixes the channels of each pixel and reads no other."""
    attrs = n.attrs
    moves = any(attrs.get("pads", ())) or any(step != 1 for step in attrs.get("strides", ()))
    same = attrs.get("auto_pad", "NOTSET") != "NOTSET"
    return set(kernel.dims[2:]) == {1} and attrs.get("group", 1) == 1 and not moves and not same


@vjp("ConvTranspose", note="gradient of the image and the bias; fixed image size; none for the kernel")
def conv_transpose(n: Node, g: Sym) -> Out:
    x, kernel = n.x[0], n.x[1]
    if n.needs_gradient[1]:
        raise n.missing("a gradient at the kernel")
    w = window(n, kernel.dims[2:], g.dims[2:], x.dims[2:])
    if "output_shape" in n.attrs:
        raise n.missing("output_shape")
    back = n.emit.op("Conv", g, kernel, dims=x.dims, group=n.attrs.get("group", 1), **w.attrs)
    return (back, None, g.sum([0, *range(2, g.rank)], keepdims=False))[: len(n.x)]


@vjp("AveragePool", note="fixed image size")
def average_pool(n: Node, g: Sym) -> Out:
    """The mean over a window is one averaging matrix per axis."""
    x = n.x[0]
    w = window(n, n.attrs["kernel_shape"], x.dims[2:], g.dims[2:])
    for i in range(x.rank - 2):
        fine, coarse = fixed(n, x.dims[2 + i], "image size"), fixed(n, g.dims[2 + i], "image size")
        g = g.along(2 + i, averaging(w, i, fine, coarse, bool(n.attrs.get("count_include_pad", 0))))
    return (g,)


def averaging(w: Window, axis: int, fine: int, coarse: int, count_pads: bool) -> Array:
    """Matrix (coarse, fine): row o averages the pixels in window o; positions beyond the declared pads do not count."""
    matrix = np.zeros((coarse, fine))
    for o in range(coarse):
        start = o * w.strides[axis] - w.before[axis]
        taps = range(start, start + w.span(axis), w.dilations[axis])
        inside = [tap for tap in taps if 0 <= tap < fine]
        counted = [tap for tap in taps if tap < fine + w.after[axis]] if count_pads else inside
        matrix[o, inside] = 1 / len(counted)
    return matrix


@vjp("GlobalAveragePool")
def global_average_pool(n: Node, g: Sym) -> Out:
    return (g * (1 / math.prod(fixed(n, size, "image size") for size in n.x[0].dims[2:])),)


@vjp("GlobalMaxPool", note="ties share the gradient equally")
def global_max_pool(n: Node, g: Sym) -> Out:
    hits = n.x[0].equals(n.y).cast(g.dtype)
    return (g * hits / hits.sum(range(2, g.rank)),)


@vjp("MaxPool", note="fixed image size")
def max_pool(n: Node, g: Sym, *_: None) -> Out:
    """The gradient of a window goes to the pixel of its maximum; a pixel gets the sum over its windows.

    One map per place in the window holds the gradients that belong there; a transposed convolution with a one-hot
    kernel per place adds them into the image.
    """
    x = n.x[0]
    fine = [fixed(n, size, "image size") for size in x.dims[2:]]
    coarse = [fixed(n, size, "image size") for size in g.dims[2:]]
    w = window(n, n.attrs["kernel_shape"], fine, coarse)
    attrs = {key: value for key, value in n.attrs.items() if key != "storage_order"}
    position = n.emit.ops("MaxPool", x, dims=[g.dims, g.dims], dtypes=[g.dtype, np.int64], **attrs)[1]
    pixel = position - position / math.prod(fine) * math.prod(fine)  # positions count through all images and channels
    places = pixels_of_windows(w, fine, coarse)
    hits = pixel.unsqueeze(2).equals(n.emit.const(places, np.int64)).cast(g.dtype)
    maps = (g.unsqueeze(2) * hits).reshape((None, *places.shape))
    kernel = n.emit.const(np.eye(len(places)).reshape(len(places), 1, *w.kernel), g.dtype)
    whole = [(size - 1) * w.strides[i] + w.span(i) for i, size in enumerate(coarse)]
    back = n.emit.op(
        "ConvTranspose", maps, kernel, dims=(None, 1, *whole),
        kernel_shape=w.kernel, strides=w.strides, dilations=w.dilations,
    )  # fmt: skip
    for i, size in enumerate(fine):
        back = back.pad(2 + i, 0, max(0, w.before[i] + size - whole[i])).cut(2 + i, w.before[i], w.before[i] + size)
    return (back.reshape_like(x),)


def pixels_of_windows(w: Window, fine: Sequence[int], coarse: Sequence[int]) -> Array:
    """The pixel of an image of size `fine` at each place of each window, (places, *coarse); -1 in the padding."""
    shape = (1,) * (2 * len(fine))
    found, inside = np.zeros(shape, np.int64), np.ones(shape, bool)
    for i, (size, count) in enumerate(zip(fine, coarse, strict=True)):
        taps = np.arange(w.kernel[i])[:, None] * w.dilations[i] + np.arange(count) * w.strides[i] - w.before[i]
        along = taps.reshape([w.kernel[i] if a == i else count if a == len(fine) + i else 1 for a in range(found.ndim)])
        found, inside = found * size + along, inside & (along >= 0) & (along < size)
    return np.where(inside, found, -1).reshape(-1, *coarse)


@vjp("Resize", note="fixed image size; every mode that works axis by axis")
def resize(n: Node, g: Sym) -> Out:
    """Resizing is linear and works axis by axis: multiply by the transposed matrix of each axis."""
    x = n.x[0]
    if n.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise n.missing("cropping while resizing")
    if n.attrs.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise n.missing("a kept aspect ratio")
    if x.dims == g.dims:
        return n.first(g)  # for equal sizes ONNX Runtime copies, whatever the scales are
    scales = n.value(2)
    for axis, (size, target) in enumerate(zip(x.dims, g.dims, strict=True)):
        scale = None if scales is None or not scales.size else _scale(n, scales, axis)
        if size != target or scale not in (None, 1):
            matrix = resizing(n, fixed(n, size, "image size"), fixed(n, target, "image size"), scale)
            g = g.along(axis, matrix.T)
    return n.first(g)


def _scale(n: Node, scales: Array, axis: int) -> float:
    """The scale of `axis`; from opset 18 on scales may be given for some axes only, the others have 1."""
    listed = [a % n.x[0].rank for a in n.attrs.get("axes", range(n.x[0].rank))]
    return float(scales[listed.index(axis)]) if axis in listed else 1.0


def resizing(n: Node, size: int, target: int, scale: float | None) -> Array:
    """Matrix (size, target) of Resize along one axis, found by resizing the unit vectors.

    The unit vectors are the channels of an image of one row. It is resized to two rows, because ONNX Runtime only
    copies if all sizes stay equal.
    """
    attrs = {key: value for key, value in n.attrs.items() if key not in ("axes", "keep_aspect_ratio_policy")}
    if scale is None:
        names, argument = ["x", "", "", "sizes"], np.asarray([1, size, 2, target], dtype=np.int64)
    else:
        names, argument = ["x", "", "scales"], np.asarray([1, 1, 2, scale], dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("Resize", names, ["y"], **attrs)],
        "resize",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, size, 1, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(argument, names[-1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", n.opset)], ir_version=IR_VERSION)
    session = open_session(model, None, device="cpu", threads=1)
    unit = np.eye(size, dtype=np.float32).reshape(1, size, 1, size)
    matrix: Array = session.run(["y"], {"x": unit})["y"][0, :, 0]
    return matrix
