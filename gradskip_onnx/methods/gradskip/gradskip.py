"""GradSkip: relevance carried back block by block, split between attention and skip path by gradients.

Buratti et al., "Gradient-Skipping Relevance Propagation for Efficient Explainability of Vision Transformers"; the
equations as implemented, and the question that each option answers, are in docs/gradskip.md. A, G, R, W are the paper's
symbols: attention, gradient of the score at the tokens of a block, relevance, weighted attention. T is its O: tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gradskip_onnx.errors import InputError, UnsupportedModelError
from gradskip_onnx.methods.patches import AttentionGroup, Patches, norms
from gradskip_onnx.methods.table import Method, method, one_backward, one_pass
from gradskip_onnx.methods.threads import side_by_side
from gradskip_onnx.methods.windows import cell_shares, cells
from gradskip_onnx.types import Architecture, Array, BlockFacts, Relevance, Trace, read_only

from .gates import GATES, share
from .gini import GINI, chunks
from .heads import Heads, weigh
from .quartiles import EVERY, restrict
from .readings import READINGS, GradSkipOptions, all_tokens, needs, seed
from .route import Route, route

HELD = 1 << 25  # attention values of all blocks: up to here they are looked up together, and threads share the work

# Undefined cases (0/0) and what was done about each; counted while the method runs, reported as notes.
GUARDS: Mapping[str, str] = {
    "zero_rows": "rows of the weighted attention were zero: those tokens kept their relevance",
    "uniform_flow": "blocks had no gradient flow: all heads got the same flow",
    "empty_heads": "heads attended to no patch: their Gini was taken as 0",
    "uniform_heads": "blocks had neither flow nor sparsity: all heads got the same weight",
    "even_gates": "gates were undefined: half went through the branch, half through the skip path",
    "uniform_cells": "cells of a stage change had no weight: their relevance was spread evenly",
    "uniform_start": "starts had a gradient but no gradient times token: all tokens started equal",
}


def gradskip(trace: Trace, architecture: Architecture, options: GradSkipOptions) -> Relevance:
    """Scores on the grid of the last block reached, the finest; non-negative, sum 1."""
    walk = _Walk.of(trace, architecture, options)
    path, events, facts, focus = walk.path, walk.events, [], []
    R = path.starts[path.first] * walk.initial(path.first)
    drift = 0.0
    for at, step in walk.down(range(path.first, path.stop, -1)):
        before = R.sum()
        R = walk.back_through(at, step, R)
        facts.append(step.facts)
        focus.append(step.focus)
        events.update(step.events)
        drift = max(drift, abs(float(R.sum() / before - 1)))
        R = R * (before / (R.sum() + options.eps))  # as printed; W and the gate keep the sum, so `drift` is rounding
        if path.enters_stage(at):
            R = walk.refine(at, R)
        del step  # and with it the attention, before that of the next block is made
        if at - 1 in path.starts:
            R = R + path.starts[at - 1] * walk.initial(at - 1)
    if not np.isfinite(R).all():
        raise UnsupportedModelError("not-finite", "relevance left the range of float64; check the model's weights")
    last = architecture.blocks[max(path.stop, path.lowest)]
    checks = {"start_block": path.first + 1, "steps": len(facts), "sum": float(R.sum()), "drift": drift}
    if len(R) != last.grid.patches:
        R, checks["special"] = _patches_alone(R, last.special)
    if options.heads != EVERY and focus:
        checks["focus"] = float(np.mean(focus))
    return Relevance(
        scores=read_only(R.reshape(last.grid)),
        checks=checks | {name: float(events[name]) for name in GUARDS},
        blocks=tuple(facts),
        notes=(*path.notes, *(f"{events[name]} {text}" for name, text in GUARDS.items() if events[name])),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """The step through one block, for any relevance: attention, head weights and gate."""

    groups: Sequence[AttentionGroup]
    facts: BlockFacts
    events: Counter[str]  # counts of GUARDS
    focus: float  # mean focus of the heads used, if `heads` restricts them


@dataclass(frozen=True, slots=True, eq=False)
class _Sizes:
    """Norms at the patches of one block, (n,) each."""

    T: Array  # |T_i|
    G: Array  # |G_i|
    mass: Array  # sum_k |G_ik| |T_ik|


@dataclass(frozen=True, slots=True, eq=False)
class _Walk:
    """State of one run: the blocks, the norms at their patches, the route and the counts of GUARDS."""

    blocks: tuple[Patches, ...]
    options: GradSkipOptions
    sizes: tuple[_Sizes, ...]  # G and mass are multiplied by lambda, the gradient scale of the block
    path: Route
    events: Counter[str]

    @classmethod
    def of(cls, trace: Trace, architecture: Architecture, options: GradSkipOptions) -> _Walk:
        kept = options.special == "keep" and any(block.special for block in architecture.blocks)
        found = all_tokens(architecture.blocks) if kept else architecture.blocks
        blocks = tuple(Patches(trace, block) for block in found)
        reading = READINGS[options.tokens]
        numbers = sum(block.tokens(reading).size for block in blocks if block.shown(reading))
        sizes = side_by_side(partial(_sizes, reading), blocks, numbers)
        # einsum, not BLAS: for a long vector BLAS starts threads that keep spinning and block the cores
        whole = np.array([np.sqrt(np.einsum("n,n->", size.G, size.G)) for size in sizes])
        mass = np.array([size.mass.sum() for size in sizes])
        shown = [block.shown(reading) for block in blocks]
        scales = whole[shown].mean() / (whole + options.eps)  # as printed; every later use is a ratio within a block
        rescaled = tuple(_Sizes(s.T, by * s.G, by * s.mass) for s, by in zip(sizes, scales, strict=True))
        return cls(blocks, options, rescaled, route(architecture, whole, mass, options), Counter())

    def initial(self, at: int) -> Array:
        """Initial relevance at a block: R_i = sum_k |G_ik| |T_ik|, divided by its sum."""
        R = self.sizes[at].mass
        if R.sum() == 0:
            self.events["uniform_start"] += 1
            R = np.ones_like(R)
        return np.asarray(R / R.sum())

    def down(self, positions: Sequence[int]) -> Iterator[tuple[int, _Step]]:
        """The step through each block at `positions`, in order; where attention is large, that of one block is held."""
        small = sum(self.blocks[at].attention_size for at in positions) <= HELD
        for together in [positions] if small else [[at] for at in positions]:
            steps = self.steps(together)
            for at in together:
                yield at, steps.pop(at)

    def steps(self, positions: Sequence[int]) -> dict[int, _Step]:
        """The step through each block at `positions`; relevance plays no part in it, so threads share the work."""
        numbers = sum(self.blocks[at].attention_size for at in positions)
        groups = side_by_side(self.attention_groups, positions, numbers)
        ginis = GINI[self.options.gini]([[group.attention for group in of_block] for of_block in groups])
        steps = side_by_side(lambda job: self.step(*job), list(zip(positions, groups, ginis, strict=True)), numbers)
        return dict(zip(positions, steps, strict=True))

    def attention_groups(self, at: int) -> Sequence[AttentionGroup]:
        found = self.blocks[at].attention_groups()
        if self.options.renorm_rows:
            found = [replace(group, attention=_renormalised(group.attention)) for group in found]
        return found

    def step(self, at: int, groups: Sequence[AttentionGroup], gini: Array) -> _Step:
        """Head weights and gate of one block."""
        events: Counter[str] = Counter()
        heads = self.heads(at, groups, gini, events)
        gate = share(GATES[self.options.gate](self.blocks, at, READINGS[self.options.tokens]), events)
        index = self.blocks[at].block.index
        facts = BlockFacts(index, _floats(heads.weights), _floats(heads.flow), _floats(heads.gini), gate)
        return _Step(groups, facts, events, heads.focus)

    def back_through(self, at: int, step: _Step, R: Array) -> Array:
        """Relevance before the block from relevance R after it: b W^T R + (1 - b) R, b the gate."""
        gate = step.facts.gate
        return gate * self.through_attention(step, self.sizes[at], R) + (1 - gate) * R

    def heads(self, at: int, groups: Sequence[AttentionGroup], gini: Array, events: Counter[str]) -> Heads:
        """Head weights from gradient flow and sparsity, restricted to a quarter of the heads if `heads` says so."""
        options, at_patches = self.options, self.sizes[at].G
        if options.flow == "input":
            at_patches = norms(self.blocks[at].raw_gradient("tokens_in"))
        at_keys = [group.at_keys(at_patches) for group in groups]
        numbers = {"alpha": options.alpha, "gamma": options.gamma, "eps": options.eps}
        attention = [group.attention for group in groups]
        found = weigh(attention, at_keys, **numbers, sparsity=gini, select=options.select, events=events)
        return restrict(found, attention, options.heads, options.focus, events)

    def through_attention(self, step: _Step, sizes: _Sizes, R: Array) -> Array:
        """W^T R with W_ij = (sum_q omega_q A_qij) |G_i| |T_j|, rows divided by their sums.

        A row of zeros is replaced by that of the identity. A key m of reduced attention stands for the tokens j of its
        window, A_ij = A_im / side^2; W is not written out in full: row sums take the window means of |T_j|, and the
        transpose spreads a key's relevance over its tokens.
        """
        weights = np.array(step.facts.head_weights)
        columns = sizes.T * (sizes.G if self.options.weight == "key" else 1.0)
        alive = sizes.G > 0 if self.options.weight == "query" else np.ones(len(R), dtype=bool)
        spread, empty = np.zeros_like(R), np.zeros(len(R), dtype=bool)

        def received(group: AttentionGroup, at_keys: Array, rows: slice) -> Array:
            query = group.queries[rows]
            mixed = _mixed(weights, group.attention[:, rows])
            # |G_i| > 0 cancels in the row normalisation
            sums = np.where(alive[query], np.einsum("ij,j->i", mixed, at_keys), 0.0)
            empty[query] = zero = sums == 0
            return np.asarray(np.einsum("i,ij->j", np.where(zero, 0.0, R[query] / np.where(zero, 1.0, sums)), mixed))

        for group in step.groups:
            heads, queries, keys = group.attention.shape
            parts = list(chunks(queries, heads * keys))
            contributions = side_by_side(partial(received, group, group.at_keys(columns)), parts, group.attention.size)
            spread += group.from_keys(np.sum(contributions, axis=0))
        self.events["zero_rows"] += int(empty.sum())
        return np.asarray(columns * spread + np.where(empty, R, 0.0))

    def refine(self, at: int, R: Array) -> Array:
        """Spread relevance at the input of a stage over the finer grid of the stage before."""
        coarse, fine = self.blocks[at].block.grid, self.blocks[at - 1].block.grid
        if not fine.covers(coarse):
            where = f"block {self.blocks[at].block.index}: tokens go from {fine} to {coarse}"
            raise UnsupportedModelError("grid-mismatch", f"{where}, a later stage must be coarser; try stages=last")
        cell = cells(coarse, fine)
        weights = np.ones(len(cell))
        if self.options.transition == "gradient":
            weights = self.sizes[at - 1].mass
        shares, empty = cell_shares(weights, cell, len(R))
        self.events["uniform_cells"] += empty
        return np.asarray(R[cell] * shares)


def _sizes(reading: str, block: Patches) -> _Sizes:
    if not block.shown(reading):  # no step goes through this block
        return _Sizes(*np.zeros((3, block.block.grid.patches)))
    return _Sizes(norms(block.tokens(reading)), norms(block.raw_gradient(reading)), block.abs_product(reading))


def _patches_alone(R: Array, special: tuple[int, ...]) -> tuple[Array, float]:
    """Relevance without special tokens, scaled to sum 1, and the share that lay on them."""
    patches = np.delete(R, special)
    if patches.sum() == 0:
        raise InputError("gradskip option special='keep': all relevance lies on special tokens; try more steps back")
    return patches / patches.sum(), float(1 - patches.sum() / R.sum())


def _mixed(weights: Array, A: Array) -> Array:
    """sum_q omega_q A_qij of A (heads, queries, keys); one head is not copied."""
    return np.asarray(A[0]) if len(weights) == 1 else np.einsum("h,hij->ij", weights, A)


def _renormalised(A: Array) -> Array:
    """A (heads, queries, keys) with rows that sum to 1; rows of zeros stay."""
    sums = A.sum(axis=2, dtype=np.float64, keepdims=True)
    return np.asarray(A / np.where(sums == 0, 1.0, sums))


def _floats(values: Array) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


GRADSKIP = method(
    Method(
        name="gradskip",
        summary="relevance carried back through weighted attention and gated skip paths",
        reference="Buratti et al., Gradient-Skipping Relevance Propagation, as printed",
        options=GradSkipOptions,
        needs=needs,
        seed=seed,
        run=one_pass(gradskip),
        cost=one_backward,
    )
)
