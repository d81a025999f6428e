"""Gradients at the image by which every channel of the patch embedding counts, whichever sign its relevance has."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import add

from gradskip_onnx.operators import Kind, of_kind

from .emit import Emit, Sym
from .engine import ancestors, backward
from .rules.table import Rule

PRODUCTS = of_kind(Kind.MATRIX | Kind.CONVOLUTION)
SHAPE_READERS = of_kind(Kind.READS_SHAPE)


def patch_embeddings(emit: Emit, image: str, of: str) -> list[str]:
    """The outputs of the products on the way from the image to the tensor `of` that have no other before them; mostly
    one. A scale that is measured on the image and applied after the product does not count as a way around it."""
    found: list[str] = []
    before, behind = {image}, set[str]()  # tensors between image and products, and those behind a product
    for node in ancestors(emit, of):
        if node.op in SHAPE_READERS:
            continue
        sources, outputs = {tensor.name for tensor in node.inputs}, {tensor.name for tensor in node.outputs}
        if sources & behind:
            behind |= outputs
        elif sources & before and node.op in PRODUCTS:
            found.append(node.outputs[0].name)
            behind |= outputs
        elif sources & before:
            before |= outputs
    return found


def unsigned_gradient(emit: Emit, image: str, gradients: Mapping[str, Sym], rules: Mapping[str, Rule]) -> Sym:
    """The gradient at the image if each output y of an embedding had relevance |y g| in place of y g.

    `gradients` holds g of the outputs named by `patch_embeddings`. The seed is |g| sign(y), for y times it is |y g|.
    """
    parts = []
    for name, g in gradients.items():
        y = emit.sym(name)
        seed = g.apply("Abs") * y.cast(y.real).apply("Sign")
        parts.append(backward(emit, of=name, seed=seed, at=[image], rules=rules)[image])
    return reduce(add, parts)
