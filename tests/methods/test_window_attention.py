"""Attention inside windows: the method must do what it does on the square matrix with zeros outside the windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradskip_onnx.methods.gradskip.gini import gini_of_heads, gini_of_rows
from gradskip_onnx.methods.gradskip.gradskip import gradskip
from gradskip_onnx.methods.gradskip.readings import GradSkipOptions
from gradskip_onnx.types import Architecture, Array, Trace

from .traces import Model, Stage, layers_of, shown

GRID, SIDE = (4, 6), 3
SAME: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-14}


def windows(shift: int) -> list[list[int]]:
    """Windows of SIDE x SIDE over a grid padded to a multiple of SIDE and rolled by `shift`; -1 is padding."""
    rows, columns = (-(-size // SIDE) * SIDE for size in GRID)
    padded = np.full((rows, columns), -1)
    padded[: GRID[0], : GRID[1]] = np.arange(GRID[0] * GRID[1]).reshape(GRID)
    rolled = np.roll(padded, (-shift, -shift), axis=(0, 1))
    tiles = rolled.reshape(rows // SIDE, SIDE, columns // SIDE, SIDE).transpose(0, 2, 1, 3)
    return [[int(n) for n in tile] for tile in tiles.reshape(-1, SIDE * SIDE)]


def both_forms(seed: int) -> tuple[tuple[Trace, Architecture], tuple[Trace, Architecture], list[Array]]:
    """The same pass with window attention and with the square matrices it stands for; and the parts of block 0."""
    trace, architecture = shown(layers_of(Model((Stage(GRID, blocks=3, heads=2),)), seed))
    rng = np.random.default_rng(seed)
    count = GRID[0] * GRID[1]
    windowed, square, blocks, parts = dict(trace.values), dict(trace.values), [], []
    for block in architecture.blocks:
        places = windows(shift=block.index % 2)
        logits = rng.normal(size=(2, len(places), SIDE**2, SIDE**2))
        small = (np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)).astype(np.float32)
        large = np.zeros((2, count, count), np.float32)
        for window, tokens in enumerate(places):
            for i, query in enumerate(tokens):
                for j, key in enumerate(tokens):
                    if query >= 0 and key >= 0:
                        large[:, query, key] = small[:, window, i, j]
            if block.index == 0:
                kept = [i for i, token in enumerate(tokens) if token >= 0]
                parts.append(small[:, window][:, kept][:, :, kept])
        windowed[block.attention], square[block.attention] = small, large
        blocks.append(replace(block, windows=tuple(map(tuple, places))))
    return (
        (replace(trace, values=windowed), replace(architecture, blocks=tuple(blocks))),
        (replace(trace, values=square), architecture),
        parts,
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", [{}, {"renorm_rows": True}, {"weight": "key"}, {"gate": "branch"}], ids=str)
def test_windows_equal_the_square_matrix(seed: int, options):
    """With heads weighed by flow alone; the Gini is over entries that exist, hence different by definition."""
    windowed, square, _ = both_forms(seed)
    chosen = GradSkipOptions(alpha=1.0, **options)
    ours, theirs = gradskip(*windowed, chosen), gradskip(*square, chosen)

    np.testing.assert_allclose(ours.scores, theirs.scores, **SAME)
    for one, other in zip(ours.blocks, theirs.blocks, strict=True):
        np.testing.assert_allclose(one.flow, other.flow, **SAME)
        assert one.gate == pytest.approx(other.gate)


def test_sparsity_is_over_entries_that_exist():
    """A head of several windows is the list of all their values; rows keep their own Gini."""
    *_, parts = both_forms(0)
    values = [np.concatenate([part[head].ravel() for part in parts]) for head in range(2)]
    rows = [[row for part in parts for row in part[head]] for head in range(2)]

    np.testing.assert_allclose(gini_of_heads([parts])[0], [gini(v) for v in values], rtol=1e-6)
    np.testing.assert_allclose(
        gini_of_rows([parts])[0], [np.mean([gini(r) for r in group]) for group in rows], rtol=1e-6
    )


def gini(values: Array) -> float:
    """Mean absolute difference over twice the mean, pair by pair."""
    wide = values.astype(np.float64)
    return float(np.abs(wide[:, None] - wide).mean() / (2 * wide.mean()))
