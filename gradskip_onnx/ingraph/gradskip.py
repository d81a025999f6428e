"""`gradskip` as operators; docs/gradskip.md has the equations, `methods.gradskip.gradskip` the reference.

The scale lambda of a block's gradients is left out: every later use is a ratio within the block. Where a case depends
on the values (no gradient at a block, a row of zeros), both answers are written and the graph chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from gradskip_onnx.autodiff.sym import Sym
from gradskip_onnx.errors import InputError, UnsupportedModelError
from gradskip_onnx.methods.gradskip.readings import ENTERING, READINGS, GradSkipOptions, all_tokens
from gradskip_onnx.types import Block

from .attention import Attending, patches_alone
from .grids import cell_matrices, cell_sizes, constant, no_zero, separable, spread_cells
from .heads import head_weights
from .layouts import drop
from .table import propagation
from .traced import Traced


@propagation("gradskip")
def gradskip(traced: Traced, options: GradSkipOptions) -> Sym:
    """Scores on the grid of the last block reached; non-negative, sum 1."""
    walk = _Walk.of(traced, options)
    top, stop = walk.spans[-1][-1], walk.stop
    R = walk.enter(top, None)
    for at in range(top, stop, -1):
        before = R.sum([1])
        R = walk.back_through(at, R)
        R = R * (before / (R.sum([1]) + options.eps))
        if at - 1 < walk.lowest:
            break
        if walk.blocks[at].stage != walk.blocks[at - 1].stage:
            R = walk.refine(at, R)
        if at - 1 > stop or at - 1 in walk.starts:
            R = walk.enter(at - 1, R)
    last = traced.architecture.blocks[max(stop, walk.lowest)]
    if R.dims[1] != last.grid.patches:
        patches = drop(R, last.special, 1)
        R = patches / no_zero(patches.sum([1]))
    return R.reshape((R.dims[0], *last.grid))


@dataclass(frozen=True, slots=True, eq=False)
class _Sizes:
    """Norms at the patches of one block, (B, n) each."""

    T: Sym  # |T_i|
    G: Sym  # |G_i|
    mass: Sym  # sum_k |G_ik| |T_ik|


@dataclass(frozen=True, slots=True, eq=False)
class _Walk:
    """The blocks, the places where relevance may start, and where it ends."""

    traced: Traced
    options: GradSkipOptions
    blocks: Sequence[Block]
    spans: Sequence[range]  # blocks that have one start together: it is the last of them with a gradient
    starts: Mapping[int, Sym]  # stages=each: the share of relevance that starts at a block, (B, 1)
    lowest: int
    stop: int

    @classmethod
    def of(cls, traced: Traced, options: GradSkipOptions) -> _Walk:
        architecture = traced.architecture
        kept = options.special == "keep" and any(block.special for block in architecture.blocks)
        blocks = all_tokens(architecture.blocks) if kept else architecture.blocks
        entries = [at for at in range(1, len(blocks)) if blocks[at].stage != blocks[at - 1].stage]
        if options.stages == "each" and (options.start, options.steps) != (0, -1):
            raise InputError("gradskip option stages='each' has its own starts: leave start at 0 and steps at -1")
        lowest = max(entries, default=0) if options.stages == "last" else 0
        bounds = [0, *entries, len(blocks)] if options.stages == "each" else [lowest, len(blocks)]
        reached = options.tokens in ("input", "normed") or kept or architecture.patches_read
        top = len(blocks) - (1 if reached else 2)  # by structure no patch of the last block is read
        spans = [range(low, min(high, top + 1)) for low, high in pairwise(bounds)]
        if options.start:
            if options.start - 1 not in range(lowest, len(blocks)):
                raise InputError(f"option start: got {options.start}, allowed: 0, {lowest + 1} to {len(blocks)}")
            spans = [range(options.start - 1, options.start)]
        if not all(spans):
            raise UnsupportedModelError("zero-gradient", "no patch of the blocks in scope is read; try tokens=input")
        first = spans[-1][-1]
        if options.steps > first - lowest + 1:
            raise InputError(f"gradskip option steps: got {options.steps}, allowed: -1 to {first - lowest + 1}")
        stop = lowest if options.steps == -1 else first - options.steps
        walk = cls(traced, options, blocks, spans, {}, lowest, stop)
        return replace(walk, starts=walk._start_shares()) if options.stages == "each" else walk

    @property
    def reading(self) -> str:
        return READINGS[self.options.tokens]

    def sizes(self, at: int) -> _Sizes:
        T, G = self.tokens(at, self.reading), self.gradient(at, self.reading)
        return _Sizes(_norms(T), _norms(G), _overlaps(G, T))

    def tokens(self, at: int, tensor: str) -> Sym:
        return self.traced.tokens(self.blocks[at], tensor)

    def gradient(self, at: int, tensor: str) -> Sym:
        return self.traced.gradient(self.blocks[at], tensor)

    def shown(self, at: int) -> bool:
        return self.traced.shown(self.blocks[at], self.reading)

    def enter(self, at: int, R: Sym | None) -> Sym:
        """Relevance at the output of a block, R and what starts there: all, if no later block had a gradient."""
        if self.starts:
            entering = self.initial(at) * self.starts[at] if at in self.starts else None
            return entering if R is None else R if entering is None else R + entering  # type: ignore[return-value]
        if R is None and (self.options.start or at == self.spans[-1][0]):
            return self.initial(at)
        if self.options.start or not self.shown(at):
            assert R is not None
            return R
        gradient = self.sizes(at).G
        alive = gradient.emit.reduce("ReduceMax", gradient, [1]) > 0
        here = alive.where(self.initial(at), 0)
        return here if R is None else (R.sum([1]) > 0).where(R, here)

    def initial(self, at: int) -> Sym:
        """R_i = sum_k |G_ik| |T_ik|, divided by its sum."""
        mass = self.sizes(at).mass
        total = mass.sum([1])
        return (total > 0).where(mass / no_zero(total), 1 / (mass.dims[1] or 1))

    def _start_shares(self) -> dict[int, Sym]:
        """The share of the relevance that starts at the last block of each stage, (B, 1)."""
        masses = {span[-1]: self.sizes(span[-1]).mass.sum([1]) for span in self.spans}
        first, *others = masses.values()
        total = sum(others, start=first)
        return {at: (total > 0).where(mass / no_zero(total), 1 / len(masses)) for at, mass in masses.items()}

    def back_through(self, at: int, R: Sym) -> Sym:
        """b W^T R + (1 - b) R, b the gate."""
        gate = self.gate(at)
        return gate * self.through_attention(at, R) + (1 - gate) * R

    def gate(self, at: int) -> Sym:
        """b = sum |G * main| / (sum |G * main| + sum |G * skip|), (B, 1); 0/0 is a half."""
        main, skip = (None if side is None else side.sum([1]) for side in self._sides(at))
        if main is None or skip is None:
            return self.traced.emit.const([[0.5]], np.float32)
        total = main + skip
        return (total > 0).where(main / no_zero(total), 0.5)

    def _sides(self, at: int) -> tuple[Sym | None, Sym | None]:
        """`gates.GATES`: sum_k |G * T| of the main path and of the skip path, (B, n)."""
        if self.options.gate == "branch":
            inside, G = self.tokens(at, "tokens_in"), self.gradient(at, "tokens_out")
            return _overlaps(G, self.tokens(at, "tokens_out") - inside), _overlaps(G, inside)
        if self.options.gate == "attention":
            G = self.gradient(at, "branch")
            return _overlaps(G, self.tokens(at, "branch")), _overlaps(G, self.tokens(at, "tokens_in"))
        main, G = self.sizes(at).mass, self.gradient(at, self.reading)
        if self.reading not in ENTERING:
            return main, _overlaps(G, self.tokens(at, "tokens_in"))
        if at == 0 or self.blocks[at - 1].stage != self.blocks[at].stage:
            return None, None
        return main, _overlaps(G, self.tokens(at - 1, self.reading))

    def through_attention(self, at: int, R: Sym) -> Sym:
        """W^T R with W_ij = (sum_q omega_q A_qij) |G_i| |T_j|, rows divided by their sums; a row of zeros keeps R."""
        options, sizes = self.options, self.sizes(at)
        attending = self.attending(at, R)
        at_patches = _norms(self.gradient(at, "tokens_in")) if options.flow == "input" else sizes.G
        mixed = _mixed(attending, head_weights(attending, at_patches, options))
        columns = sizes.T * sizes.G if options.weight == "key" else sizes.T
        sums = mixed @ attending.at_keys(columns)
        if options.weight == "query":
            sums = (attending.at_queries(sizes.G) > 0).where(sums, 0)
        zero = sums.equals(0)
        shares = zero.where(constant(sums, 0), attending.at_queries(R) / no_zero(sums))
        spread = attending.from_keys(mixed.mT @ shares)
        return columns * spread + attending.from_queries(zero.cast(R.dtype)) * R

    def attending(self, at: int, R: Sym) -> Attending:
        found = patches_alone(self.traced, self.blocks[at], R)
        if not self.options.renorm_rows:
            return found
        return replace(found, attention=found.attention / no_zero(found.attention.sum([-1])))

    def refine(self, at: int, R: Sym) -> Sym:
        """Relevance at the input of a stage over the finer grid of the stage before."""
        coarse, fine = self.blocks[at].grid, self.blocks[at - 1].grid
        if not fine.covers(coarse):
            where = f"block {self.blocks[at].index}: tokens go from {fine} to {coarse}"
            raise UnsupportedModelError("grid-mismatch", f"{where}, a later stage must be coarser; try stages=last")
        whole = R.reshape((R.dims[0], *coarse))
        flat = (R.dims[0], fine.patches)
        if self.options.transition == "uniform" or not self.shown(at - 1):
            return spread_cells(whole, fine).reshape(flat)
        mass = self.sizes(at - 1).mass.reshape((R.dims[0], *fine))
        down, across = cell_matrices(R.emit, fine, coarse)
        totals = separable(mass, down.mT, across.mT)
        even = separable(constant(R, 1 / cell_sizes(fine, coarse)[None]), down, across)
        spread = separable(totals, down, across)
        shares = spread.equals(0).where(even, mass / no_zero(spread))
        return (separable(whole, down, across) * shares).reshape(flat)


def _mixed(attending: Attending, weights: Sym) -> Sym:
    """sum_q omega_q A_q, (B, [windows,] queries, keys)."""
    A = attending.attention
    heads, rest = A.dims[1], A.dims[2:]
    flat = A.reshape((A.dims[0], heads, int(np.prod([size or 0 for size in rest]))))
    return (weights.unsqueeze(1) @ flat).reshape((A.dims[0], *rest))


def _norms(x: Sym) -> Sym:
    """|x_i|, (B, n)."""
    return (x * x).sum([2], keepdims=False).apply("Sqrt")


def _overlaps(x: Sym, y: Sym) -> Sym:
    """sum_k |x_ik y_ik|, (B, n)."""
    return (x * y).apply("Abs").sum([2], keepdims=False)
