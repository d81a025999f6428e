"""Proves where the tokens of each stage lie in the picture, and which token each query and key stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.layouts import arrange, batch_of, restore
from gradskip_onnx.graph.prove.dry_run import DryRun
from gradskip_onnx.graph.prove.partial_model import PartialModel
from gradskip_onnx.graph.prove.probes import CUT, Cell, CutModel, find_token_grid, locality, open_cut_model, perturb
from gradskip_onnx.types import Array, Block, ImageLayout, Proof, Size

LEAK = 1e-3  # changes elsewhere, as a share of the expected change of scores, that rounding explains


def prove_places(
    model: PartialModel, blocks: Sequence[Block], scores: Sequence[str], values: Mapping[str, Array], dry_run: DryRun
) -> tuple[list[Block], list[Proof]]:
    """Set the grid and special tokens of each block, and prove both."""
    starts = [block for n, block in enumerate(blocks) if n == 0 or block.stage != blocks[n - 1].stage]
    ends = [block for n, block in enumerate(blocks) if n + 1 == len(blocks) or block.stage != blocks[n + 1].stage]
    image = dry_run.image
    cuts = [block.tokens_out for block in ends[:-1]]
    proofs: list[Proof] = []
    size: Size = dry_run.size
    placed: dict[int, Block] = {}
    for start, before in zip(starts, [None, *ends], strict=False):
        move = _picture_mover(dry_run, values) if before is None else _token_mover(placed[before.stage], before, values)
        cut_model = open_cut_model(model, cuts, [start.tokens_in], values)
        place = find_token_grid(_responder(cut_model, start, move, len(values[image.name])), size, start.tokens_in)
        if place is None:
            raise UnsupportedModelError(
                "no-grid", f"the tokens at {start.tokens_in!r} do not lie on a grid over what stands before them"
            )
        proofs += place.proofs
        size = place.grid
        placed[start.stage] = replace(start, grid=place.grid, special=place.special)
    located = [replace(b, grid=placed[b.stage].grid, special=placed[b.stage].special) for b in blocks]
    return located, proofs + _prove_locality(model, located, scores, values)


Mover = Callable[[Cell | None], tuple[str, Array]]  # cell to change (None: all) -> input to feed, its changed value


def _picture_mover(dry_run: DryRun, values: Mapping[str, Array]) -> Mover:
    """Changes pixels of the image."""
    image = dry_run.image
    base = values[image.name]
    other = image.within_grid(perturb(base, np.random.default_rng(1)))

    def move(cell: Cell | None) -> tuple[str, Array]:
        if cell is None:
            return image.name, other
        changed = base.copy()
        place = _pixel(cell, image.layout)
        changed[place] = other[place]
        return image.name, changed

    return move


def _pixel(cell: Cell, layout: ImageLayout) -> tuple[int | slice, ...]:
    """All channels of one pixel of every image, as an index."""
    at = {"h": cell[0], "w": cell[1]}
    return tuple(at.get(letter, slice(None)) for letter in layout)


def _token_mover(stage: Block, end: Block, values: Mapping[str, Array]) -> Mover:
    """Changes tokens at the end of a stage; `stage` is its first block, which has the grid."""
    value = values[end.tokens_out]
    base = arrange(value, end.output_layout, batch_of(value, end.output_layout))
    other = perturb(base, np.random.default_rng(1))
    patches = np.setdiff1d(np.arange(base.shape[1]), stage.special)

    def move(cell: Cell | None) -> tuple[str, Array]:
        token = patches if cell is None else patches[cell[0] * stage.grid.columns + cell[1]]
        changed = base.copy()
        changed[:, token] = other[:, token]
        return CUT + end.tokens_out, restore(changed, end.output_layout, value.shape)

    return move


def _responder(cut_model: CutModel, start: Block, move: Mover, batch: int) -> Callable[[Sequence[Cell | None]], Array]:
    """A function from P cells before a stage to the change of each token of its first block, (P, N)."""

    def tokens(changed: Mapping[str, Array]) -> Array:
        output = cut_model.run([start.tokens_in], changed)[start.tokens_in]
        canonical: Array = arrange(output, start.tokens_layout, batch)[0].astype(np.float64)
        return canonical

    base = tokens({})

    def respond(cells: Sequence[Cell | None]) -> Array:
        return np.stack([np.abs(tokens(dict([move(cell)])) - base).sum(axis=-1) for cell in cells])

    return respond


def _prove_locality(
    model: PartialModel, blocks: Sequence[Block], scores: Sequence[str], values: Mapping[str, Array]
) -> list[Proof]:
    """Prove for every block that a token changes only its own query's row and its own key's column of the scores."""
    cut_model = open_cut_model(model, [block.tokens_in for block in blocks], scores, values)
    rng = np.random.default_rng(2)
    unchanged = cut_model.run(scores, {})
    worst = dict.fromkeys(scores, 0.0)
    for share in (0.0, 0.4, 1.0):  # the first token, one in the middle, the last
        moved_tokens = {}
        changed = {}
        for block in blocks:
            value = values[block.tokens_in]
            tokens = arrange(value, block.tokens_layout, batch_of(value, block.tokens_layout)).copy()
            token = round(share * (tokens.shape[1] - 1))
            tokens[:, token] = perturb(tokens, rng)[:, token]
            moved_tokens[block.index] = token
            changed[CUT + block.tokens_in] = restore(tokens, block.tokens_layout, value.shape)
        outputs = cut_model.run(scores, changed)
        for block, name in zip(blocks, scores, strict=True):
            batch = batch_of(values[block.tokens_in], block.tokens_layout)
            before, after = (arrange(run[name], block.attention_layout, batch)[0] for run in (unchanged, outputs))
            token = moved_tokens[block.index]
            worst[name] = max(worst[name], locality(before, after, *entry_of(token, block)))
    return [Proof("a token moves its own query and key alone", name, leak, LEAK) for name, leak in worst.items()]


def entry_of(token: int, block: Block) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Indices of a token as query and as key: (token,), or (window, place); a reduced key is that of its square."""
    if block.windows:
        window, place = next((w, row.index(token)) for w, row in enumerate(block.windows) if token in row)
        return (window, place), (window, place)
    if block.reduction == 1:
        return (token,), (token,)
    row, column = divmod(token, block.grid.columns)
    keys = block.grid.reduced(block.reduction)
    return (token,), (row // block.reduction * keys.columns + column // block.reduction,)
