"""Finds which token each query of each window stands for by probes: shifts, rolls and padding need no pattern.

Tokens are numbered from 1, and there is one probe per bit of these numbers: it changes all tokens whose number has
that bit. A query that changes has the bit in its token's number; a query that never changes is padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gradskip_onnx.graph.layouts import arrange, batch_of, restore
from gradskip_onnx.graph.prove.partial_model import PartialModel
from gradskip_onnx.graph.prove.probes import CUT, STILL, open_cut_model, perturb
from gradskip_onnx.graph.prove.proofs import require
from gradskip_onnx.types import Array, Block, Proof


def find_windows(
    model: PartialModel, blocks: Sequence[Block], queries: Mapping[int, str], values: Mapping[str, Array]
) -> tuple[list[Block], list[Proof]]:
    """Set and prove the windows of blocks with window attention; `queries` maps a block index to the name of its Q."""
    windowed = [block for block in blocks if "w" in block.attention_layout]
    if not windowed:
        return list(blocks), []
    names = [queries[block.index] for block in windowed]
    cut_model = open_cut_model(model, [block.tokens_in for block in windowed], names, values)
    tokens = {b.index: arrange(values[b.tokens_in], b.tokens_layout, _batch(b, values)) for b in windowed}
    perturbed = {index: perturb(array, np.random.default_rng(4)) for index, array in tokens.items()}
    unchanged = cut_model.run(names, {})
    numbers = {
        block.index: np.zeros(_queries(unchanged[name], block, values).shape[:2], int)
        for block, name in zip(windowed, names, strict=True)
    }
    for bit in range(max(array.shape[1] for array in tokens.values()).bit_length()):
        changed = {}
        for block in windowed:
            moved = tokens[block.index].copy()
            which = (np.arange(1, moved.shape[1] + 1) >> bit & 1).astype(bool)
            moved[:, which] = perturbed[block.index][:, which]
            changed[CUT + block.tokens_in] = restore(moved, block.tokens_layout, values[block.tokens_in].shape)
        outputs = cut_model.run(names, changed)
        for block, name in zip(windowed, names, strict=True):
            before, after = (_queries(run[name], block, values) for run in (unchanged, outputs))
            distance = np.abs(after - before).sum(axis=-1)
            numbers[block.index] |= (distance > STILL * distance.max()).astype(int) << bit
    found = {index: tuple(tuple(int(n) - 1 for n in row) for row in rows) for index, rows in numbers.items()}
    proofs = [_prove(found[block.index], tokens[block.index].shape[1], block) for block in windowed]
    require(proofs)  # later proofs look tokens up in their windows
    return [replace(block, windows=found.get(block.index, ())) for block in blocks], proofs


def _batch(block: Block, values: Mapping[str, Array]) -> int:
    return batch_of(values[block.tokens_in], block.tokens_layout)


def _queries(array: Array, block: Block, values: Mapping[str, Array]) -> Array:
    """Q of the first image as (windows, queries, heads * d)."""
    per_image = arrange(array, "(bw)hqk", _batch(block, values))[0].astype(np.float64)  # (heads, windows, q, d)
    heads, windows, queries, width = per_image.shape
    return np.asarray(per_image.transpose(1, 2, 0, 3).reshape(windows, queries, heads * width))


def _prove(windows: Sequence[Sequence[int]], count: int, block: Block) -> Proof:
    """Prove that every token is a query of exactly one window."""
    numbers = np.array([n for row in windows for n in row if n >= 0])
    times = np.bincount(numbers[numbers < count], minlength=count)
    wrong = int((times != 1).sum() + (numbers >= count).sum())
    return Proof("each token is a query of exactly one window", block.attention, float(wrong), 0.0)
