"""TIS: the model reads half of its patches at a time, chosen by clusters of its activations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.passes import Passes
from gradskip_onnx.methods.patches import Patches
from gradskip_onnx.methods.table import Cost, Method, method
from gradskip_onnx.methods.windows import cells
from gradskip_onnx.types import Architecture, Array, Needs, Relevance, Trace, read_only

from .kmeans import kmeans
from .token_masks import masked_probabilities, mean_score


@dataclass(frozen=True, slots=True)
class TisOptions:
    """Options of TIS; the defaults are those of the reference."""

    masks: int = option(1024, "number of masks: clusters of activation maps", low=1)
    ratio: float = option(0.5, "share of the patches that a mask keeps", low=0.0, high=1.0)
    seed: int = option(0, "seed of the clusters' starting points, and of the noise where pixels are masked", low=0)


def tis(trace: Trace, architecture: Architecture, options: TisOptions, passes: Passes) -> Relevance:
    """R_j = sum_i p_i B_ij / sum_i B_ij, scaled to 0 ... 1; p_i the probability if only the patches of B_i are read."""
    activations = channels(trace, architecture)
    count = min(options.masks, len(activations))
    rng = np.random.default_rng(options.seed)
    chosen = rng.choice(len(activations), count, replace=False)
    centres, steps = kmeans(activations, activations[chosen])
    keep = strongest(centres, max(1, int(options.ratio * centres.shape[1])))
    p, notes = masked_probabilities(trace, architecture, keep, passes, options.seed)
    scores = mean_score(p, keep)
    scores = scores - scores.min()
    if count < options.masks:
        notes = (*notes, f"{count} masks in place of {options.masks}: the model has no more channels")
    return Relevance(
        scores=read_only((scores / (scores.max() or 1.0)).reshape(architecture.grid)),
        checks={"masks": float(count), "steps": float(steps), "uncovered": float((~keep.any(axis=0)).sum())},
        notes=notes,
    )


def channels(trace: Trace, architecture: Architecture) -> Array:
    """All channels of all blocks' outputs over the patches, (L d, n) float32; coarser stages on the finest grid."""
    grid = architecture.grid
    maps = [
        Patches(trace, block).value("tokens_out")[cells(block.grid, grid)].T.astype(np.float32)
        for block in architecture.blocks
    ]
    return np.concatenate(maps)


def strongest(values: Array, count: int) -> Array:
    """(M, n) booleans: the `count` largest values of each row; among equal values the first win."""
    order = np.argsort(-values, axis=1, kind="stable")[:, :count]
    keep = np.zeros(values.shape, bool)
    np.put_along_axis(keep, order, True, axis=1)
    return keep


TIS = method(
    Method(
        name="tis",
        summary="the model reads half of its patches, chosen by clusters of its activations",
        reference="Englebert et al., Explaining through Transformer Input Sampling, ICCV workshops 2023",
        options=TisOptions,
        needs=lambda _, model: Needs(tokens_in=model.first_block, tokens_out=model.every_block),
        run=tis,
        cost=lambda options: Cost(1 + options.masks, 0, f"all but one with {options.ratio:.0%} of the patches"),
    )
)
