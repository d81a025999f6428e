"""Arithmetic on tensor dimensions, where None stands for a dimension that follows the batch size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gradskip_onnx.types import Dims


def broadcast(*shapes: Dims) -> Dims:
    """The dimensions of an elementwise result; an unknown dimension wins over a known one."""
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(_merge(sizes) for sizes in zip(*padded, strict=True))


def _merge(sizes: Sequence[int | None]) -> int | None:
    if None in sizes:
        return None
    return next((size for size in sizes if size != 1), 1)


def matmul(a: Dims, b: Dims) -> Dims:
    """The dimensions of a product of stacked matrices (both of rank two or more)."""
    return (*broadcast(a[:-2], b[:-2]), a[-2], b[-1]) if len(a) + len(b) > 4 else (a[-2], b[-1])


def axes(rank: int, chosen: Iterable[int]) -> tuple[int, ...]:
    """Axes as non-negative numbers, in rising order."""
    return tuple(sorted(axis % rank for axis in chosen))


def reduced(dims: Dims, chosen: Sequence[int], keepdims: bool) -> Dims:
    """The dimensions after a reduction over the axes `chosen` (non-negative)."""
    if keepdims:
        return tuple(1 if axis in chosen else size for axis, size in enumerate(dims))
    return tuple(size for axis, size in enumerate(dims) if axis not in chosen)


def volume(dims: Iterable[int | None]) -> int | None:
    """The number of elements; None if it follows the batch size."""
    sizes = list(dims)
    return None if None in sizes else math.prod(size for size in sizes if size is not None)


def surplus(wide: Dims, narrow: Dims) -> tuple[int, ...]:
    """The axes along which `narrow` was broadcast to `wide`: the gradient of `narrow` is the sum over them."""
    lead = len(wide) - len(narrow)
    stretched = (lead + axis for axis, size in enumerate(narrow) if size == 1 and wide[lead + axis] != 1)
    return (*range(lead), *stretched)
