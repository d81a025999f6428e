"""`gradskip+` as operators; docs/gradskip_plus.md has the equations."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from math import prod

from gradskip_onnx.autodiff.sym import Sym
from gradskip_onnx.methods.gradskip.gradskip_plus import GradSkipPlusOptions, middle_blocks
from gradskip_onnx.types import Grid

from .grids import density, enlarging, no_zero, separable
from .table import propagation
from .traced import Traced


@propagation("gradskip+")
def gradskip_plus(traced: Traced, options: GradSkipPlusOptions) -> Sym:
    """Scores (B, H, W); an image without any relevance gets zeros."""
    size = traced.architecture.input_dims.size
    blocks = middle_blocks(traced.architecture.blocks, options)
    sums: dict[Grid, list[Sym]] = defaultdict(list)
    for block in blocks:
        relevance = (traced.tokens(block, "tokens_in") * traced.gradient(block, "tokens_in")).sum([2], keepdims=False)
        sums[block.grid].append(relevance.reshape((relevance.dims[0], *block.grid)))
    strength = _at_pixels(traced, traced.unsigned_gradient()) if options.detail else None
    parts = []
    for grid, relevances in sums.items():
        share = grid.patches / prod(size) / len(blocks)
        enlarged = separable(_total(relevances) * share, *enlarging(traced.emit, size, grid))
        if strength is not None:
            enlarged = enlarged * (density(strength, grid) * options.detail + (1 - options.detail))
        parts.append(enlarged)
    scores = _total(parts)
    if options.pixels:
        scores = scores + _at_pixels(traced, traced.image_gradient()) * options.pixels
    return _sharpened(scores, options)


def _total(parts: list[Sym]) -> Sym:
    return reduce(Sym.__add__, parts)


def _at_pixels(traced: Traced, gradient: Sym) -> Sym:
    """sum over the channels of (x - mean colour) * gradient, (B, H, W)."""
    x = traced.image()
    return ((x - x.mean([2, 3])) * gradient).sum([1], keepdims=False)


def _sharpened(scores: Sym, options: GradSkipPlusOptions) -> Sym:
    """s |s / max s|^(contrast - 1), what speaks against the class times `opposing`."""
    size = scores.apply("Abs")
    strongest = no_zero(scores.emit.reduce("ReduceMax", size, [1, 2]))
    relative = size / strongest
    if options.contrast != 2:
        relative = relative.apply("Pow", options.contrast - 1)
    weighed = (scores < 0).where(scores * options.opposing, scores)
    return weighed * relative
