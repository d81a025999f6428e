"""RISE: the mean of random masks, each weighed by the probability of the class for the masked image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.images.interpolate import matrices
from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.passes import Passes
from gradskip_onnx.methods.table import Cost, Method, method
from gradskip_onnx.types import Architecture, Array, Needs, Relevance, Trace, read_only

AT_ONCE = 32  # masks in memory at a time


@dataclass(frozen=True, slots=True)
class RiseOptions:
    """Options of RISE; the defaults are those of the comparisons in the TIS and GradSkip papers."""

    masks: int = option(4000, "number of random masks", low=1)
    cells: int = option(8, "cells of a mask along each side", low=1)
    keep: float = option(0.1, "probability that a cell is seen", low=1e-6, high=1.0)
    seed: int = option(0, "seed of the masks; the same for all images", low=0)


def rise(trace: Trace, architecture: Architecture, options: RiseOptions, passes: Passes) -> Relevance:
    """1 / (N keep) sum_i p_i m_i, (H, W); masked pixels are 0 after normalisation, which is the mean colour."""
    size = architecture.input_dims.size
    total, probabilities = np.zeros(size), []
    for masks in draw_masks(options, size):
        images = (masks[:, None] * trace.input).astype(trace.input.dtype)
        p = passes.probabilities(images)
        total += np.tensordot(p, masks, axes=1)
        probabilities.append(p)
    return Relevance(
        scores=read_only(total / (options.masks * options.keep)),
        checks={"masks": float(options.masks), "mean_probability": float(np.concatenate(probabilities).mean())},
    )


def draw_masks(options: RiseOptions, size: tuple[int, int]) -> Iterator[Array]:
    """Random masks with values 0 ... 1, in batches (M, H, W).

    A grid of random cells is enlarged to the image size plus one cell and cropped at a random offset, so that cell
    borders are not at fixed places; pixels beyond the centres of the outer cells are mirrored, as in the reference.
    """
    rng = np.random.default_rng(options.seed)
    cell = -(-size[0] // options.cells), -(-size[1] // options.cells)
    enlarged = (options.cells + 1) * cell[0], (options.cells + 1) * cell[1]
    down, across = matrices(enlarged, (options.cells, options.cells), "mirrored")
    for start in range(0, options.masks, AT_ONCE):
        masks = []
        for _ in range(min(AT_ONCE, options.masks - start)):
            visible = (rng.random((options.cells, options.cells)) < options.keep).astype(np.float64)
            y, x = (int(rng.integers(0, side)) for side in cell)
            masks.append(down[y : y + size[0]] @ visible @ across[x : x + size[1]].T)
        yield np.stack(masks).astype(np.float32)


RISE = method(
    Method(
        name="rise",
        summary="random masks, weighed by the probability of the class behind each",
        reference="Petsiuk, Das and Saenko, RISE: Randomized Input Sampling for Explanation, BMVC 2018",
        options=RiseOptions,
        needs=lambda _options, _model: Needs(),
        run=rise,
        cost=lambda options: Cost(1 + options.masks),
    )
)
