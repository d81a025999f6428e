"""Insertion and Deletion: the probability of the class while its most relevant pixels appear or are removed.

RISE (Petsiuk et al., BMVC 2018) defined both; GradSkip reports their difference. Both curves are measured together,
because they share their ends, the image and its substrate.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradskip_onnx.errors import InputError
from gradskip_onnx.images import interpolate
from gradskip_onnx.methods.options import option
from gradskip_onnx.types import Array

from .protocols import KINDS, PROTOCOLS, Protocol
from .ranking import patch_ranks, ranks
from .sample import Saliency, Sample, Score, ask_with_ends
from .substrates import Blur, Blurred, Substrate, whole
from .table import ImageMetric, Measured, metric

SUBSTRATE_NAMES = ("usual", "mean", "black", "zero", "random", "blur")


@dataclass(frozen=True, slots=True)
class Options:
    """How the curves are measured; 0 and `usual` mean the value of the protocol."""

    substrate: str = option(
        "usual", "what removed pixels become; usual: mean, but RISE blurs or zeroes, TIS blurs", choices=SUBSTRATE_NAMES
    )
    protocol: str = option("canonical", "whose rules: end points, steps, ties, area", choices=tuple(PROTOCOLS))
    unit: str = option("pixel", "what changes as a whole: pixels, or patches by their mean", choices=("pixel", "patch"))
    steps: int = option(0, "parts in which the pixels change; 0: 28, but 224 for TIS, 12 for group", low=0, high=4096)
    blur_size: int = option(0, "weights a side of the blur, an odd number; 0: 11, but 15 for group", low=0, high=255)
    blur_sigma: float = option(0.0, "standard deviation of the blur in pixels; 0: 5, but 7 for group", low=0, high=100)


def curves(sample: Sample, saliency: Saliency, score: Score, options: Options) -> Measured:
    """Both curves of one image, their areas and the difference of these; T steps take 2 T images."""
    protocol = PROTOCOLS[options.protocol]
    rank = _ranks(sample, saliency, protocol, options.unit)
    cuts = protocol.cuts(rank.size, options.steps)
    substrates = _substrates(protocol, options)
    ends: dict[Hashable, Array] = {fill: fill(sample) for fill in (whole, *substrates.values())}
    changed = _between(sample.image, [ends[substrates[kind]] for kind in KINDS], rank, cuts[1:-1])
    at_ends, between = ask_with_ends(score, ends, changed)
    clean = at_ends[whole]
    found, areas = {}, {}
    for kind, inner in zip(KINDS, np.split(between, len(KINDS)), strict=True):
        bare = at_ends[substrates[kind]]
        first, last = (bare, clean) if kind == "insertion" else (clean, bare)
        found[kind] = protocol.shown(kind, cuts, np.array([first, *inner, last]))
        areas[kind] = protocol.area(*found[kind])
    numbers = {**areas, "difference": areas["insertion"] - areas["deletion"], "probability": clean}
    return Measured(numbers, found)


def _ranks(sample: Sample, saliency: Saliency, protocol: Protocol, unit: str) -> Array:
    """How many pixels change before each pixel, (H, W); resampling and ties as in the protocol."""
    nearest = protocol.resample == "nearest"
    values = interpolate.resize(saliency.scores, sample.size, "nearest") if nearest else saliency.map
    last_first = protocol.ties == "last"
    if unit == "patch":
        return patch_ranks(values, sample.patch, sample.seed, last_first=last_first)
    return ranks(values, sample.seed, last_first=last_first)


def _substrates(protocol: Protocol, options: Options) -> dict[str, Substrate]:
    """The substrate of each curve, from the options and the protocol."""
    size, sigma = options.blur_size or protocol.blur.size, options.blur_sigma or protocol.blur.sigma
    if size % 2 == 0:
        raise InputError(f"blur_size: got {size}, allowed: odd numbers, so that the blur has a middle")
    blur = Blur(size, sigma, protocol.blur.folded)
    by_name: dict[str, Substrate] = {**protocol.substrates, "blur": Blurred(blur)}
    names = protocol.usual if options.substrate == "usual" else dict.fromkeys(KINDS, options.substrate)
    return {kind: by_name[names[kind]] for kind in KINDS}


def _between(image: Array, substrates: Sequence[Array], rank: Array, cuts: Array) -> Iterator[Array]:
    """The images between the ends of the curves, first Insertion, then Deletion; `cut` pixels are changed."""
    for kind, bare in zip(KINDS, substrates, strict=True):
        start, finish = (bare, image) if kind == "insertion" else (image, bare)
        for cut in cuts:
            yield np.where(rank < cut, finish, start)


def _passes(options: Any) -> int:
    protocol = PROTOCOLS[options.protocol]
    distinct = set(protocol.usual.values()) if options.substrate == "usual" else {options.substrate}
    return 2 * ((options.steps or protocol.steps) - 1) + 1 + len(distinct)


def _row(name: str, summary: str, better: Any, lowest: float, term: str) -> ImageMetric:
    return metric(
        ImageMetric(
            name, summary, Options, better=better, span=(lowest, 1.0), terms=(term,), measure=curves, passes=_passes
        )
    )


_row("insertion", "area under the probability as relevant pixels appear on a substrate", "higher", 0.0, "insertion")
_row("deletion", "area under the probability as relevant pixels are replaced by a substrate", "lower", 0.0, "deletion")
_row("insertion-deletion", "Insertion minus Deletion on the same substrate", "higher", -1.0, "difference")
