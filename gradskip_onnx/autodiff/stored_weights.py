"""A stored weight that is dequantised, in operators that ONNX Runtime computes once, when it opens the model.

It folds constants, but never DequantizeLinear, whose reader it may replace by an integer kernel; the products of a
backward pass are of real numbers and would dequantise the weight in every run.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from .sym import Sym

LARGE = 4096  # elements; smaller ones cost nothing


def as_stored(x: Sym) -> Sym:
    """s (q - z) for the large output of a DequantizeLinear of stored tensors; every other tensor itself."""
    node = x.tensor.inputs[0] if x.tensor.inputs else None
    if node is None or node.op != "DequantizeLinear" or not _foldable(x, node):
        return x
    axis = int(node.attrs.get("axis", 1))
    q, scale, *zero = (x.emit.as_sym(tensor) for tensor in node.inputs if tensor.name)
    real = q.cast(np.float32)
    for shift in zero:
        real = real - _along(shift, axis, q.rank).cast(np.float32)
    return real * _along(scale, axis, q.rank)


def _foldable(x: Sym, node: Any) -> bool:
    known = None not in x.dims and prod(size or 0 for size in x.dims) >= LARGE
    stored = all(isinstance(tensor, gs.Constant) for tensor in node.inputs if tensor.name)
    return known and stored and not node.attrs.get("block_size") and x.dtype == np.float32


def _along(vector: Sym, axis: int, rank: int) -> Sym:
    """One number, or one per slice along an axis, so that it broadcasts against a tensor of this rank."""
    if vector.rank != 1:
        return vector
    if vector.dims[0] == 1:
        return vector.reshape(())
    return vector.reshape(tuple(vector.dims[0] if at == axis % rank else 1 for at in range(rank)))
