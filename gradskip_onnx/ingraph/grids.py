"""Moves values between grids inside the graph: along each axis a product with a matrix that does not change."""

from __future__ import annotations

import numpy as np

from gradskip_onnx.autodiff.emit import Emit
from gradskip_onnx.autodiff.sym import Sym
from gradskip_onnx.images.interpolate import Taps, taps_of
from gradskip_onnx.types import Array, Grid, Size


def matrix(emit: Emit, taps: Taps, old: int) -> Sym:
    """(new, old): the weights of the old samples in each new one.

    The file holds the taps, a few numbers a row. A runtime makes the matrix of them once, when it loads the file.
    """
    columns = emit.const(np.arange(old)[None], np.int32)
    places, shares = taps
    total: Sym | None = None
    for place, share in zip(places.T, shares.T, strict=True):
        chosen = emit.const(place[:, None], np.int32).equals(columns).cast(np.float32)
        weighed = chosen if (share == 1).all() else chosen * emit.const(share[:, None], np.float32)
        total = weighed if total is None else total + weighed
    assert total is not None  # a tap at least
    return total


def separable(x: Sym, down: Sym, across: Sym) -> Sym:
    """(B, rows, columns) -> (B, H, W) by the matrices (H, rows) and (W, columns)."""
    return down @ x @ across.mT


def enlarging(emit: Emit, size: Size, grid: Size) -> tuple[Sym, Sym]:
    """`images.interpolate.matrices`: linear between the centres of cells."""
    down, across = (matrix(emit, taps_of("bilinear", new, old), old) for new, old in zip(size, grid, strict=True))
    return down, across


def enlarge(x: Sym, size: Size) -> Sym:
    """`images.interpolate.resize`: linear between the centres of cells."""
    return x if grid_of(x) == tuple(size) else separable(x, *enlarging(x.emit, size, grid_of(x)))


def cell_matrices(emit: Emit, fine: Size, coarse: Size) -> tuple[Sym, Sym]:
    """Matrices (H, rows) and (W, columns), 1 where a fine row or column lies in a coarse one (`windows.cells`)."""
    down, across = (
        matrix(emit, Taps((np.arange(new) * old // new)[:, None], np.ones((new, 1))), old)
        for new, old in zip(fine, coarse, strict=True)
    )
    return down, across


def cell_sizes(fine: Size, coarse: Size) -> Array:
    """(rows, columns) of the coarse grid: how many fine samples lie in each."""
    counts = (np.bincount(np.arange(new) * old // new, minlength=old) for new, old in zip(fine, coarse, strict=True))
    return np.outer(*counts)


def spread_cells(x: Sym, fine: Size) -> Sym:
    """(B, rows, columns) -> (B, H, W): each value divided equally among the fine samples of its cell."""
    sizes = cell_sizes(fine, grid_of(x))
    return separable(x / constant(x, sizes), *cell_matrices(x.emit, fine, grid_of(x)))


def density(strength: Sym, grid: Grid) -> Sym:
    """`gradskip_plus.density`: strength (B, H, W) over the mean of its patch; 1 in a patch that has none."""
    down, across = cell_matrices(strength.emit, grid_of(strength), grid)
    positive = strength.apply("Max", 0)
    sums = separable(positive, down.mT, across.mT)
    means = separable(sums / constant(strength, cell_sizes(grid_of(strength), grid)), down, across)
    none = means.equals(0)
    return none.where(constant(strength, 1), positive / none.where(constant(strength, 1), means))


def constant(like: Sym, value: Array | float) -> Sym:
    """A constant of the element type of `like`."""
    return like.emit.const(value, like.dtype)


def grid_of(x: Sym) -> Size:
    """Rows and columns of (B, rows, columns)."""
    return x.dims[-2] or 0, x.dims[-1] or 0


def no_zero(x: Sym) -> Sym:
    """`x`, or 1 where it is 0, to divide by."""
    return x.equals(0).where(constant(x, 1), x)
