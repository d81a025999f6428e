"""Proves where the tokens of each stage lie in the picture, and which token each query and key stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.layouts import arrange, batch_of, restore, token_count
from gradskip_onnx.graph.prove.block_values import in_groups, sample_rows
from gradskip_onnx.graph.prove.chosen_rows import with_rows
from gradskip_onnx.graph.prove.dry_run import DryRun
from gradskip_onnx.graph.prove.partial_model import PartialModel
from gradskip_onnx.graph.prove.probes import CUT, Cell, CutModel, find_token_grid, locality, open_cut_model, perturb
from gradskip_onnx.types import Array, Block, ImageLayout, Proof, Size

MOVED = (0.0, 0.4, 1.0)  # the first token, one in the middle, the last
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
    return located, proofs + _prove_locality(model, located, scores, values, dry_run)


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
    model: PartialModel, blocks: Sequence[Block], scores: Sequence[str], values: Mapping[str, Array], dry_run: DryRun
) -> list[Proof]:
    """Prove for every block that a token changes only its own query's row and its own key's column of the scores."""
    cuts = [block.tokens_in for block in blocks]
    rng = np.random.default_rng(2)
    proofs: list[Proof] = []
    for group in in_groups(len(blocks), lambda n: dry_run.bytes_of(scores[n])):
        here = [_Scores.of(blocks[n], scores[n], values, dry_run.shapes) for n in group]
        chosen, names = with_rows(model, {entry.name: entry.rows for entry in here}, dry_run.shapes, cuts)
        cut_model = open_cut_model(chosen, cuts, list(names.values()), values)
        unchanged = cut_model.run(list(names.values()), {})
        worst = dict.fromkeys(names, 0.0)
        for at in range(len(MOVED)):
            outputs = cut_model.run(list(names.values()), dict(entry.moved(at, values, rng) for entry in here))
            for entry in here:
                before, after = (run[names[entry.name]] for run in (unchanged, outputs))
                worst[entry.name] = max(worst[entry.name], entry.leak(at, before, after))
        proofs += [Proof("a token moves its own query and key alone", name, leak, LEAK) for name, leak in worst.items()]
    return proofs


@dataclass(frozen=True, slots=True, eq=False)
class _Scores:
    """The scores of a block, the tokens that are moved in turn, and the rows that are looked at (None: all)."""

    name: str
    block: Block
    batch: int
    tokens: tuple[int, ...]
    rows: Array | None

    @classmethod
    def of(cls, block: Block, name: str, values: Mapping[str, Array], shapes: Mapping[str, Sequence[int]]) -> _Scores:
        value = values[block.tokens_in]
        last = token_count(value.shape, block.tokens_layout) - 1
        tokens = tuple(round(share * last) for share in MOVED)
        rows = None if block.windows else sample_rows(shapes[name], tokens)
        return cls(name, block, batch_of(value, block.tokens_layout), tokens, rows)

    def moved(self, at: int, values: Mapping[str, Array], rng: np.random.Generator) -> tuple[str, Array]:
        """The input to feed, and its value with one token changed."""
        block, value = self.block, values[self.block.tokens_in]
        tokens = arrange(value, block.tokens_layout, self.batch).copy()
        tokens[:, self.tokens[at]] = perturb(tokens, rng)[:, self.tokens[at]]
        return CUT + block.tokens_in, restore(tokens, block.tokens_layout, value.shape)

    def leak(self, at: int, before: Array, after: Array) -> float:
        """What moves elsewhere against what moves in the row and the column of the token that was changed."""
        query, key = entry_of(self.tokens[at], self.block)
        if self.rows is not None:
            query = (int(np.searchsorted(self.rows, query[0])),)
        base, moved = (arrange(scores, self.block.attention_layout, self.batch)[0] for scores in (before, after))
        return locality(base, moved, query, key)


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
