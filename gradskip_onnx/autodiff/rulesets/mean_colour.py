"""What a node would read if the image had its mean colour everywhere.

A contribution x W counts from where x is zero, and where zero lies is an accident of the preprocessing. Counted from
the mean colour of the image itself, contributions are the same for every mean and deviation that the file expects.
"""

from __future__ import annotations

from typing import Any

from gradskip_onnx.autodiff.emit import Sym
from gradskip_onnx.autodiff.rules.table import STANDARD_DOMAINS, Node
from gradskip_onnx.types import image_layout


def of_mean_colour(n: Node, index: int) -> Sym:
    """Input `index` of a node that lies behind the image, for the image's mean colour; of the same dimensions."""
    return _replayed(n, n.x[index].tensor, {})


def _replayed(n: Node, tensor: Any, known: dict[str, Sym]) -> Sym:
    """A tensor for the mean colour: the nodes between image and tensor once more, on another image."""
    if tensor.name in known:
        return known[tensor.name]
    if tensor.name not in n.activations:
        return n.emit.as_sym(tensor)
    if not tensor.inputs:
        known[tensor.name] = _mean(n.emit.sym(tensor.name))
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
    """The mean over rows and columns, for each channel, at every pixel."""
    places = [axis for axis, name in enumerate(image_layout(image.dims[1:])) if name in "hw"]
    return image.cast(image.real).mean(places).cast(image.dtype).expand_like(image)
