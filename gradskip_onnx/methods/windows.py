"""Moves values between token grids: from tokens to reduced keys and back, and between stages."""

from __future__ import annotations

import numpy as np

from gradskip_onnx.types import Array, Grid, Size


def window_mean(values: Array, grid: Grid, side: int) -> Array:
    """(n,) on the grid -> (keys,), the mean over each side x side window; leftover rows and columns are in none."""
    if side == 1:
        return values
    rows, columns = grid.reduced(side)
    whole = values.reshape(grid)[: rows * side, : columns * side]
    return np.asarray(whole.reshape(rows, side, columns, side).mean(axis=(1, 3))).ravel()


def window_spread(values: Array, grid: Grid, side: int) -> Array:
    """(keys,) -> (n,): every token of a window gets 1/side^2 of its key's value, tokens in no window get 0."""
    if side == 1:
        return values
    rows, columns = grid.reduced(side)
    spread = np.zeros(grid)
    tiles = np.repeat(np.repeat(values.reshape(rows, columns), side, axis=0), side, axis=1)
    spread[: rows * side, : columns * side] = tiles / side**2
    return spread.ravel()


def cells(coarse: Size, fine: Size) -> Array:
    """The coarse token over each fine token, (n_fine,). A coarse token of a stride-2 merge covers a cell of 2 x 2."""
    rows = np.arange(fine[0]) * coarse[0] // fine[0]
    columns = np.arange(fine[1]) * coarse[1] // fine[1]
    return (rows[:, None] * coarse[1] + columns).ravel()


def cell_shares(weights: Array, cell: Array, count: int) -> tuple[Array, int]:
    """Each fine token's share of its cell (n_fine,), proportional to `weights`, and the number of cells of weight 0.

    In those cells all shares are equal.
    """
    totals = np.bincount(cell, weights, count)
    empty = totals == 0
    sizes = np.bincount(cell, minlength=count)
    shares = np.where(empty[cell], 1.0 / sizes[cell], weights / np.where(empty, 1.0, totals)[cell])
    return shares, int(empty.sum())


def cell_sizes(coarse: int, fine: int) -> Array:
    """How many fine tokens lie over each coarse one along one axis, (coarse,); see `cells`."""
    return np.bincount(np.arange(fine) * coarse // fine, minlength=coarse)


def cell_sums(values: Array, sizes: Array) -> Array:
    """(fine, ...) -> (coarse, ...): the sum over each cell along the first axis; undefined where a cell has none."""
    starts = np.minimum(np.cumsum(sizes) - sizes, len(values) - 1)
    return np.asarray(np.add.reduceat(values, starts, axis=0))


def stretched(values: Array, rows: Array, columns: Array) -> Array:
    """(coarse rows, coarse columns) -> (fine rows, fine columns): each value repeated over its cell."""
    return np.repeat(np.repeat(values, columns, axis=1), rows, axis=0)
