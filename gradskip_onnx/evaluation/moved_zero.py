"""The same model for images that are normalised otherwise: another mean and deviation, folded into the patch embedding.

With x' = s x + o for each channel, W x + b = (W / s) x' + (b - (W / s) o): the same function of the photograph, by a
file that expects other numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from gradskip_onnx.api import Explainer
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.layouts import as_fed
from gradskip_onnx.graph.prove.partial_model import partial_model
from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.operators import Kind, of_kind
from gradskip_onnx.types import Array

MOVERS = of_kind(Kind.MOVES | Kind.RELABELS)
SHAPE_READERS = of_kind(Kind.READS_SHAPE)
FOLDED = ("Conv", "MatMul", "Gemm")
STANDARD_DOMAINS = (None, "", "ai.onnx")
FLOATS = (np.float32, np.float64)  # in half precision, rounding other weights would be a change of its own


def moved_images(images: Array, old: Preprocess, new: Preprocess) -> Array:
    """Images (B, channels, H, W) that were normalised by `old`, as `new` normalises them."""
    scale, offset = _change(old, new)
    return (images * scale[:, None, None] + offset[:, None, None]).astype(images.dtype)


def with_moved_zero(explainer: Explainer, new: Preprocess) -> Explainer:
    """The explainer of the same photographs, normalised by `new`; an embedding that cannot take it up is refused."""
    graph = explainer.model.reading.graph.copy()
    product = _first_product(graph, explainer.architecture.input)
    weight = product.inputs[1]
    if not _is_own_float(weight) or (product.op != "Conv" and len(weight.shape) != 2):
        raise _refused(product, "its weights are not stored floats of its own")
    channels = _channel_of_weights(explainer, graph, product)
    scale, offset = (values[channels] for values in _change(explainer.preprocess, new))
    inward = _input_axis(product)
    along = [-1 if axis == inward else 1 for axis in range(len(weight.shape))]
    others = tuple(axis for axis in range(len(weight.shape)) if axis != 1 - inward)
    W = weight.values.astype(np.float64) / scale.reshape(along)
    b = -(W * offset.reshape(along)).sum(others)
    weight.values = W.astype(weight.values.dtype)
    bias = _bias(product, np.zeros(b.shape, weight.values.dtype))
    bias.values = (bias.values + b).astype(bias.values.dtype)
    return replace(explainer, preprocess=new, model=explainer.model.with_graph(graph))


def _change(old: Preprocess, new: Preprocess) -> tuple[Array, Array]:
    """s and o of x' = s x + o, one per channel."""
    scale = np.array(old.std) / np.array(new.std)
    return scale, (np.array(old.mean) - np.array(new.mean)) / np.array(new.std)


def _first_product(graph: gs.Graph, image: str) -> gs.Node:
    """The only node that computes with pixels: a plain product, which adds no pixels of its own at the edges."""
    found = list(_readers(graph, image))
    if len(found) != 1:
        names = ", ".join(f"{node.op} {node.name!r}" for node in found[:3])
        raise UnsupportedModelError("no-fold", f"{len(found)} nodes compute with pixels ({names}), one can be folded")
    (node,) = found
    if node.op not in FOLDED or node.domain not in STANDARD_DOMAINS:
        raise _refused(node, f"only {', '.join(FOLDED)} can take another mean and deviation")
    if any(node.attrs.get("pads", ())) or node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise _refused(node, "it pads the image with zeros, which would become another colour")
    if node.attrs.get("group", 1) != 1:
        raise _refused(node, "its channels are grouped")
    if any(node.attrs.get(name, usual) != usual for name, usual in (("transA", 0), ("alpha", 1.0), ("beta", 1.0))):
        raise _refused(node, "it scales or transposes the image")
    return node


def _readers(graph: gs.Graph, image: str) -> Iterator[gs.Node]:
    """The nodes that compute with pixels, behind those that only move them."""
    stack: list[Any] = [tensor for tensor in graph.inputs if tensor.name == image]
    seen: set[str] = set()
    while stack:
        for node in stack.pop().outputs:
            if node.op in SHAPE_READERS or node.outputs[0].name in seen:
                continue
            seen.add(node.outputs[0].name)
            if node.op in MOVERS:
                stack += node.outputs
            else:
                yield node


def _channel_of_weights(explainer: Explainer, graph: gs.Graph, product: gs.Node) -> Array:
    """The channel of the image that each weight along the summed axis meets, seen on an image of channel numbers."""
    architecture, fact = explainer.architecture, explainer.model.image
    dims = architecture.input_dims
    numbers = np.arange(1, dims.channels + 1).reshape(1, -1, 1, 1)  # 0 is what padding adds
    image = np.broadcast_to(numbers, (fact.dims[0] or 1, *dims)).astype(fact.dtype)
    name = product.inputs[0].name
    if name == architecture.input:
        seen = as_fed(image, architecture.input_layout)
    else:
        session = partial_model(graph, explainer.model.folder).open([name])
        seen = session.run([name], {architecture.input: as_fed(image, architecture.input_layout)})[name]
    last = seen if product.op != "Conv" else np.moveaxis(seen, 1, -1)
    found = last.reshape(-1, last.shape[-1])
    if (found == 0).any():
        raise _refused(product, "the image is padded before it")
    if (found != found[0]).any():
        raise _refused(product, "a weight meets several channels")
    return np.asarray(found[0]).astype(int) - 1


def _bias(product: gs.Node, zeros: Array) -> gs.Constant:
    """The stored bias of a product: its own, else that of the Add behind it; a Conv without one gets `zeros`."""
    if len(product.inputs) > 2 and product.inputs[2].name:
        bias = product.inputs[2]
    elif product.op == "Conv":
        bias = gs.Constant(f"{product.outputs[0].name}_moved_zero", zeros)
        if len(product.inputs) > 2:
            product.inputs[2] = bias  # an input that was left out has no name
        else:
            product.inputs.append(bias)
    else:
        behind = product.outputs[0].outputs
        added = [tensor for tensor in behind[0].inputs if isinstance(tensor, gs.Constant)] if len(behind) == 1 else []
        if len(behind) != 1 or behind[0].op != "Add" or not added:
            raise _refused(product, "no stored bias is added to it")
        bias = added[0]
    if not _is_own_float(bias):
        raise _refused(product, "its bias is no stored float of its own")
    return bias


def _is_own_float(tensor: Any) -> bool:
    return isinstance(tensor, gs.Constant) and len(tensor.outputs) == 1 and tensor.values.dtype in FLOATS


def _input_axis(product: gs.Node) -> int:
    """The axis of the weights that is summed over: 1 of (outputs, inputs, ..), 0 of (inputs, outputs)."""
    return 1 if product.op == "Conv" or product.attrs.get("transB", 0) else 0


def _refused(node: gs.Node, reason: str) -> UnsupportedModelError:
    return UnsupportedModelError("no-fold", f"the embedding {node.op} {node.name!r} cannot be folded: {reason}")
