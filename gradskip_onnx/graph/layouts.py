"""What the axes of a tensor mean, written as a short word such as "bnd" or "(bw)hqk" (see `types.Block`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import permutations
from math import prod

import numpy as np

from gradskip_onnx.types import Array, Dims, ImageDims, ImageLayout

CANONICAL = ("bnd", "byxd", "bhqk", "bhwqk", "bchw")


@cache
def axes_of(layout: str) -> tuple[str, ...]:
    """The letters of each axis: "(bh)qk" has the axes "bh", "q" and "k"."""
    return tuple(group.strip("()") for group in re.findall(r"\([a-z]+\)|[a-z]", layout))


def arrange(array: Array, layout: str, batch: int) -> Array:
    """Tokens as (B, n, d), attention as (B, heads, [windows,] queries, keys), whatever the model's own order is."""
    letters: list[str] = []
    shape: list[int] = []
    for axis, size in zip(axes_of(layout), array.shape, strict=True):
        letters += axis
        shape += [batch, size // batch] if len(axis) == 2 else [size]
    if "b" not in letters:
        letters, shape = ["b", *letters], [1, *shape]
    order = next(word for word in CANONICAL if set(word) == set(letters))
    canonical = array.reshape(shape).transpose([letters.index(letter) for letter in order])
    if order == "byxd":
        canonical = canonical.reshape(batch, -1, canonical.shape[-1])
    return canonical


def as_fed(images: Array, layout: ImageLayout) -> Array:
    """Images (B, channels, H, W) transposed to the layout of the model's input."""
    return images.transpose(["bchw".index(letter) for letter in layout])


def fed_dims(dims: ImageDims, layout: ImageLayout) -> tuple[int, ...]:
    """The shape of one image in the layout of the model's input, without the batch axis."""
    return tuple(dims["chw".index(letter)] for letter in layout if letter != "b")


def batch_of(array: Array, layout: str) -> int:
    """How many images a token tensor holds."""
    return array.shape[axes_of(layout).index("b")] if "b" in layout else 1


def token_count(shape: Sequence[int], layout: str) -> int:
    """How many tokens an image has in a tensor of this shape and layout."""
    return prod(size for letter, size in zip(axes_of(layout), shape, strict=True) if letter in "nyx")


def restore(tokens: Array, layout: str, like: Sequence[int]) -> Array:
    """The inverse of `arrange` for tokens: (B, n, d) in the order and shape of a tensor of the model."""
    letters = axes_of(layout)
    sizes = dict(zip(letters, like, strict=True)) | {"b": len(tokens)}
    order = [letter for letter in "bnyxd" if letter in letters or letter == "b"]
    unpacked = tokens.reshape([sizes[letter] for letter in order])
    if "b" not in letters:
        unpacked, order = unpacked[0], order[1:]
    return np.ascontiguousarray(unpacked.transpose([order.index(letter) for letter in letters]))


def attention_layout(dims: Dims, shape: Sequence[int], batch: int) -> str | None:
    """The layout of an attention tensor whose last axis is normalised; None if its shape fits no known layout."""
    follows = [size is None for size in dims]
    dynamic = any(follows)
    if len(shape) == 4 and (follows == [True, False, False, False] if dynamic else shape[0] % batch == 0):
        return "bhqk" if shape[0] == batch else "(bw)hqk"
    if len(shape) == 3 and (follows == [True, False, False] if dynamic else batch == 1):
        return "(bh)qk"
    return None


def token_layouts(dims: Dims, shape: Sequence[int], batch: int, tokens: int, padded: bool) -> Iterator[str]:
    """Layouts in which a tensor holds `tokens` tokens per image (or fewer, if `padded`), the most likely first."""
    dynamic = None in dims
    for word in ("bnd", "byxd") if len(shape) > 2 else ("nd",):
        if len(word) != len(shape):
            continue
        for letters in permutations(word):
            sizes = dict(zip(letters, shape, strict=True))
            grid_in_order = "y" not in letters or letters.index("y") < letters.index("x")
            right_batch = "b" not in sizes or (
                [letter == "b" for letter in letters] == [size is None for size in dims]
                if dynamic
                else sizes["b"] == batch
            )
            count = prod(sizes[letter] for letter in "nyx" if letter in sizes)
            if grid_in_order and right_batch and (count == tokens or (padded and count < tokens)):
                yield "".join(letters)
