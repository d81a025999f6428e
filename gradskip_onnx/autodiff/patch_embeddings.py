"""Gradients at the image by which every channel of the patch embedding counts, whichever sign its relevance has."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import add

from .emit import Emit, Sym
from .engine import activations, ancestors, backward
from .rules.table import Rule
from .rulesets.gates import PRODUCTS, before_products


def patch_embeddings(emit: Emit, of: str) -> list[str]:
    """The outputs of the products on the way from the image to the tensor `of` that have no other before them; mostly
    one. A scale that is measured on the image and applied after the product does not count as a way around it."""
    above = ancestors(emit, of)
    varying = activations(emit, above)
    read = {id(node): [tensor for tensor in node.inputs if tensor.name in varying] for node in above}
    products = [node for node in above if node.op in PRODUCTS and read[id(node)]]
    return [node.outputs[0].name for node in products if before_products(read[id(node)], varying)]


def unsigned_gradient(emit: Emit, image: str, gradients: Mapping[str, Sym], rules: Mapping[str, Rule]) -> Sym:
    """The gradient at the image if each output y of an embedding had relevance |y g| in place of y g.

    `gradients` holds g of the outputs named by `patch_embeddings`. The seed is |g| sign(y), for y times it is |y g|.
    """
    parts = []
    for name, g in gradients.items():
        y = emit.sym(name)
        seed = g.apply("Abs") * y.cast(y.real).sign()
        parts.append(backward(emit, of=name, seed=seed, at=[image], rules=rules)[image])
    return reduce(add, parts)
