"""What a node would read if the image had its mean colour everywhere.

A contribution x W counts from where x is zero, and where zero lies is an accident of the preprocessing. Counted from
the mean colour of the image itself, contributions are the same for every mean and deviation that the file expects.
"""

from __future__ import annotations

from typing import Any

from gradskip_onnx.autodiff import dims as shapes
from gradskip_onnx.autodiff.emit import Sym
from gradskip_onnx.autodiff.rules.table import STANDARD_DOMAINS, Node
from gradskip_onnx.operators import Kind, of_kind
from gradskip_onnx.types import image_layout

from .gates import ROUNDS

PIXEL_BY_PIXEL = of_kind(Kind.UNARY | Kind.BROADCASTS) | ROUNDS | {"Clip"}


def of_mean_colour(n: Node, index: int, *, alike: bool = False) -> Sym:
    """Input `index` of a node that lies behind the image, for the image's mean colour; of the same dimensions.

    With `alike` it may be one pixel, (B, C, 1, 1), if nodes on the way work pixel by pixel.
    """
    tensor = n.x[index].tensor
    return (_pixel(n, tensor) if alike else None) or _replayed(n, tensor, {})


def _pixel(n: Node, tensor: Any) -> Sym | None:
    """One pixel of a tensor for the mean colour; None if a node on the way does not work pixel by pixel."""
    if tensor.name not in n.activations:
        constant = n.emit.as_sym(tensor)
        return constant if all(size == 1 for size in constant.dims[-2:]) else None
    if not tensor.inputs:
        image = n.emit.sym(tensor.name)
        return _mean(image) if image_layout(image.dims[1:]) == "bchw" else None
    node = tensor.inputs[0]
    sources = [_pixel(n, source) for source in node.inputs] if node.op in PIXEL_BY_PIXEL else [None]
    found = [source for source in sources if source is not None]
    if len(found) < len(sources) or len(node.outputs) > 1:
        return None
    dims = shapes.broadcast(*(source.dims for source in found))
    return n.emit.op(node.op, *found, dims=dims, dtype=n.emit.sym(tensor.name).dtype, **node.attrs)


def _replayed(n: Node, tensor: Any, known: dict[str, Sym]) -> Sym:
    """A tensor for the mean colour: the nodes between image and tensor once more, on another image."""
    if tensor.name in known:
        return known[tensor.name]
    if tensor.name not in n.activations:
        return n.emit.as_sym(tensor)
    if not tensor.inputs:
        image = n.emit.sym(tensor.name)
        known[tensor.name] = _mean(image).expand_like(image)
        return known[tensor.name]
    node = tensor.inputs[0]
    if node.domain not in STANDARD_DOMAINS or any(not source.name for source in node.inputs):
        raise n.missing(f"an embedding behind {node.op}")
    sources = [_replayed(n, source, known) for source in node.inputs]
    outputs = [n.emit.sym(output.name) for output in node.outputs]
    found = n.emit.ops(
        node.op, *sources, dims=[y.dims for y in outputs], dtypes=[y.dtype for y in outputs], **node.attrs
    )
    known.update(zip((output.name for output in node.outputs), found, strict=True))
    return known[tensor.name]


def _mean(image: Sym) -> Sym:
    """The mean over rows and columns, for each channel."""
    places = [axis for axis, name in enumerate(image_layout(image.dims[1:])) if name in "hw"]
    return image.cast(image.real).mean(places).cast(image.dtype)
