"""Measures the claims of the patterns on the values of one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.find.patterns import Attention, Residual
from gradskip_onnx.graph.index import Index
from gradskip_onnx.operators import Kind, of_kind
from gradskip_onnx.types import Array, Proof

from .value_grids import find_grids, saturate

# Largest relative difference that rounding explains, by element type.
ROUNDING = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2}
GRID_STEP = 1 / 127  # of an 8-bit grid, relative to the largest value on it; where the grid is not known
GRID_STEPS = 1.01  # integer and float kernels may round to neighbouring steps
MOST_SATURATED = 0.05  # share of the entries of an attention

UNCHANGED = "attention reaches the values unchanged"
SATURATED = "few entries of the attention saturate"
REMEDY = "a map of this file could be wrong, so none is made"
REMEDIES = {
    UNCHANGED: f"{REMEDY}; if the file is quantised, take the one from before",
    SATURATED: "quantise again with more calibration images like those to be explained, or take the file from before",
}

IN_PLACE = of_kind(Kind.UNARY | Kind.BROADCASTS | Kind.QUANTISES | Kind.DEQUANTISES) | {"Cast", "Identity"}

Product = Callable[[Array, Array, Mapping[str, Any]], Array]
PRODUCT_TWINS: dict[str, Product] = {
    "MatMul": lambda a, b, _: np.matmul(a, b),
    "Einsum": lambda a, b, attrs: np.einsum(attrs["equation"].replace(" ", ""), a, b),
    "Gemm": lambda a, b, attrs: (
        attrs.get("alpha", 1.0)
        * np.matmul(a.T if attrs.get("transA") else a, b.T if attrs.get("transB") else b)
    ),
}  # fmt: skip


def rounding(dtype: np.dtype[Any]) -> float:
    """The largest relative difference that rounding explains for this element type."""
    return ROUNDING.get(dtype.name, ROUNDING["float16"])


def difference(measured: Array, expected: Array) -> float:
    """Largest difference, relative to the largest value expected."""
    if measured.shape != expected.shape:
        return float("inf")
    wide = expected.astype(np.float64)
    scale = float(np.abs(wide).max(initial=0.0)) or 1.0
    gap = float(np.abs(measured - wide).max(initial=0.0)) / scale
    return gap if np.isfinite(gap) else float("inf")


def prove_attention(match: Attention, lookup: Index, values: Mapping[str, Array]) -> list[Proof]:
    """Prove that rows of the attention sum to 1 and that the context is attention times values.

    `values` may hold some rows alone of the attention and all that follows from it (see `rows_suffice`).
    """
    attention, operand, value = values[match.attention], values[match.operand], values[match.value]
    context = values[match.context]
    product: Any = lookup.node(match.context)
    bound = rounding(attention.dtype)
    pair = (operand, value) if match.attention_first else (value, operand)
    wide = np.result_type(np.float32, *pair)
    left, right = (factor.astype(wide, copy=False) for factor in pair)
    mixed = PRODUCT_TWINS[product.op](left, right, product.attrs)
    sums = attention.sum(axis=-1, dtype=np.float64)
    return [
        Proof("rows of the attention sum to 1", match.attention, difference(sums, np.ones_like(sums)), bound),
        *_prove_unchanged(match, lookup, values),
        Proof("attention times values is the context", match.context, difference(context, mixed), bound),
    ]


def rows_suffice(match: Attention, lookup: Index, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Whether some rows of the attention can be looked at alone: its rows stay where they are, and it enters first."""
    product: Any = lookup.node(match.context)
    between = lookup.between(match.attention, match.operand)
    in_place = all(node.op in IN_PLACE for node in between) and shapes[match.operand] == shapes[match.attention]
    return in_place and match.attention_first and product.op == "MatMul"


def _prove_unchanged(match: Attention, lookup: Index, values: Mapping[str, Array]) -> list[Proof]:
    """Prove that what enters the product is the attention, rounded to the grids on its way if there are any.

    Entries beyond the end of a grid saturate there. That is what the file computes, but an attention of which much
    saturates is none: a probe unlike the images that the grid was calibrated on would say nothing about the file.
    """
    attention, operand = values[match.attention], values[match.operand]
    if match.operand == match.attention:
        return [Proof(UNCHANGED, match.operand, 0.0, rounding(attention.dtype))]
    if not match.quantised:
        return [Proof(UNCHANGED, match.operand, _same_entries(operand, attention), rounding(attention.dtype))]
    grids = find_grids(lookup, match.attention, match.operand, values)
    if not grids:
        return [Proof(UNCHANGED, match.operand, _same_entries(operand, attention), GRID_STEP)]
    saturated, share = saturate(attention, grids)
    step = sum(grid.step for grid in grids)  # the unit: the largest value of the probe may be a small part of a grid
    steps = _steps_apart(operand, saturated, step)
    return [Proof(UNCHANGED, match.operand, steps, GRID_STEPS), Proof(SATURATED, match.operand, share, MOST_SATURATED)]


def _same_entries(one: Array, other: Array) -> float:
    """`difference` of the sorted entries: near 0 if two tensors hold the same numbers in any order."""
    return difference(*_sorted(one, other))


def _sorted(one: Array, other: Array) -> tuple[Array, Array]:
    return np.sort(one, axis=None), np.sort(other, axis=None)


def _steps_apart(one: Array, other: Array, step: float) -> float:
    """Largest difference of the sorted entries in steps of a grid."""
    first, second = _sorted(one, other)
    return float(np.abs(first - second).max()) / step if first.shape == second.shape else float("inf")


def prove_stream(adds: Sequence[Residual], values: Mapping[str, Array]) -> list[Proof]:
    """Prove for each residual add that output minus branch is the input."""
    return [
        Proof(
            "output minus branch is the residual input",
            add.out,
            difference(values[add.out] - values[add.branch].astype(np.float64), values[add.operand]),
            rounding(values[add.out].dtype),
        )
        for add in adds
    ]


def require(proofs: Sequence[Proof]) -> tuple[Proof, ...]:
    """Return the proofs; raise UnsupportedModelError for the first that does not hold."""
    for proof in proofs:
        if not proof.holds:
            raise UnsupportedModelError(
                "proof-failed",
                f"at {proof.where!r} it does not hold that {proof.claim}: measured {proof.measured:.3g}, "
                f"allowed {proof.bound:.3g}; {REMEDIES.get(proof.claim, REMEDY)}",
            )
    return tuple(proofs)
