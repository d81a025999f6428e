"""Gradients of K scores of one image from one forward pass: every gradient has a row per score.

Most graphs need no change for that: if the first axis is the image alone, an activation (1, ..) broadcasts against
gradients (K, ..). Windows and folded heads share that axis with the image, (windows, ..) against (K windows, ..); the
gradients are then reshaped to (K, windows, ..) for that operation. A reshape copies nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradskip_onnx.operators import Kind, of_kind
from gradskip_onnx.types import Dims, TensorFact

from .emit import Emit, Sym

# The second input of Expand is a shape, which broadcasts like a tensor that has it.
BROADCASTING = of_kind(Kind.BROADCASTS) | {"MatMul", "Expand"}


class RowEmit(Emit):
    """Writes a backward pass with K rows; K is the first dimension of the tensors passed to `per_row`."""

    def __init__(self, graph: Any, facts: Mapping[str, TensorFact], opset: int) -> None:
        super().__init__(graph, facts, opset)
        self._rows: Sym | None = None
        self._with_rows: set[str] = set()  # names of tensors whose first axis counts rows

    def per_row(self, x: Sym) -> Sym:
        """Mark `x` (K, ..) as having rows, and so every tensor computed from it; the first one marked is (K,)."""
        self._with_rows.add(x.name)
        if self._rows is None:
            self._rows = super().ops("Shape", x, dims=[(1,)], dtypes=[np.int64])[0]
        return x

    def ops(self, op: str, *inputs: Sym, dims: Sequence[Dims], dtypes: Sequence[Any], **attrs: Any) -> tuple[Sym, ...]:
        has_rows = [x.name in self._with_rows for x in inputs]
        if not any(has_rows):
            return super().ops(op, *inputs, dims=dims, dtypes=dtypes, **attrs)
        if op in BROADCASTING and self._meets(op, inputs, has_rows) and _foldable(op, inputs, dims[0]):
            split = [self._split(x) if rows and None in x.dims else x for x, rows in zip(inputs, has_rows, strict=True)]
            (wide,) = super().ops(op, *split, dims=[(None, *dims[0])], dtypes=dtypes, **attrs)
            self._with_rows.add(wide.name)  # it may be reshaped in place of the result
            shape = self.ints([-1 if size is None else size for size in dims[0]])
            found = super().ops("Reshape", wide, shape, dims=dims, dtypes=dtypes)
        else:
            found = super().ops(op, *inputs, dims=dims, dtypes=dtypes, **attrs)
        self._with_rows.update(sym.name for sym in found)
        return found

    def _meets(self, op: str, inputs: Sequence[Sym], has_rows: Sequence[bool]) -> bool:
        """Whether a tensor with rows is combined with an activation, whose first axis follows the images."""
        if op == "Expand":
            return has_rows[0] and not has_rows[1]
        return any(not rows and None in x.dims for x, rows in zip(inputs, has_rows, strict=True))

    def _split(self, x: Sym) -> Sym:
        """Reshape (K windows, ..) to (K, windows, ..)."""
        assert self._rows is not None  # `per_row` was called before
        rest = [size for size in x.dims[1:] if size is not None]
        (shape,) = super().ops(
            "Concat", self._rows, self.ints([-1, *rest]), dims=[(x.rank + 1,)], dtypes=[np.int64], axis=0
        )
        return super().ops("Reshape", x, shape, dims=[(None, *x.dims)], dtypes=[x.dtype])[0]


def _foldable(op: str, inputs: Sequence[Sym], dims: Dims) -> bool:
    """Whether the first axis, and no other, of the result and of its dynamic inputs follows images and rows."""
    if dims[0] is not None or None in dims[1:]:
        return False
    follow = [x for x in inputs if None in x.dims]
    if op == "MatMul" and any(x.rank < 3 for x in follow):  # the first axis is an axis of the matrix
        return False
    return all(x.rank == len(dims) and x.dims[0] is None for x in follow)
