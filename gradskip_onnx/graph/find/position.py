"""Finds where the positional embedding is added to the tokens, before the first block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import onnx_graphsurgeon as gs

from gradskip_onnx.graph.index import Index
from gradskip_onnx.graph.layouts import axes_of, token_layouts
from gradskip_onnx.types import Block, Position, TensorFact


def find_position(
    lookup: Index, image: str, first: Block, facts: Mapping[str, TensorFact], shapes: Mapping[str, tuple[int, ...]]
) -> Position | None:
    """The addition of the positional embedding, or None in models without one (SegFormer, Swin).

    It is the last addition before the first block whose addend is the same for all images but differs between tokens;
    a bias is the same for all tokens.
    """
    for node in reversed(lookup.between(image, first.tokens_in)):
        varying = [tensor for tensor in node.inputs if tensor.name in lookup.activations]
        if node.op != "Add" or len(varying) != 1:
            continue
        (fixed,) = [tensor for tensor in node.inputs if tensor is not varying[0]]
        out = node.outputs[0].name
        for layout, special in _readings(out, first, facts, shapes):
            if _tokens(fixed, facts, layout) > 1:
                return Position(varying[0].name, out, layout, special)
    return None


def _readings(
    name: str, first: Block, facts: Mapping[str, TensorFact], shapes: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Layouts in which a tensor holds the patches of the first block, and the positions of its special tokens.

    Special tokens may join after the embedding. Of those in front of the patches the tensor then holds the first few;
    special tokens elsewhere are all there or none.
    """
    in_front = first.special == tuple(range(len(first.special)))
    batch = shapes[first.tokens_in][axes_of(first.tokens_layout).index("b")] if "b" in first.tokens_layout else 1
    for extra in range(len(first.special), -1, -1):
        special = first.special if extra == len(first.special) else tuple(range(extra))
        if in_front or extra in (0, len(first.special)):
            count = first.grid.patches + extra
            layouts = token_layouts(facts[name].dims, shapes[name], batch, count, padded=False)
            yield from ((layout, special) for layout in layouts)


def _tokens(fixed: Any, facts: Mapping[str, TensorFact], layout: str) -> int:
    """How many tokens the addend spans; it broadcasts against the last axes of the layout."""
    dims = tuple(fixed.shape) if isinstance(fixed, gs.Constant) else facts[fixed.name].dims
    letters = axes_of(layout)[-len(dims) :] if dims else []
    return prod(size or 1 for letter, size in zip(letters, dims, strict=False) if letter in "nyx")
