"""Gradients at the image by which every channel of the patch embedding counts, whichever sign its relevance has."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import add

from gradskip_onnx.operators import Kind, of_kind

from .emit import Emit, Sym
from .engine import backward
from .rules.table import Rule

PRODUCTS = of_kind(Kind.MATRIX | Kind.CONVOLUTION)
SHAPE_READERS = of_kind(Kind.READS_SHAPE)


def patch_embeddings(emit: Emit, image: str) -> list[str]:
    """The outputs of the products that read the image with no other product between; mostly one."""
    found: list[str] = []
    stack, seen = [emit.sym(image).tensor], {image}
    while stack:
        for node in stack.pop().outputs:
            if node.op in SHAPE_READERS or node.outputs[0].name in seen or node.outputs[0].name not in emit.facts:
                continue
            seen.update(output.name for output in node.outputs)
            if node.op in PRODUCTS:
                found.append(node.outputs[0].name)
            else:
                stack += node.outputs
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
