"""ViT-CX: feature maps of the last block, clustered to masks, weighed by their effect on the probability."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.images.interpolate import matrices
from gradskip_onnx.imports.optional import import_optional
from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.passes import Passes
from gradskip_onnx.methods.patches import Patches
from gradskip_onnx.methods.table import Cost, Method, method
from gradskip_onnx.types import Architecture, Array, Needs, Relevance, Trace, read_only

AT_ONCE = 16  # masks in memory at a time; each takes two images
TYPICAL = 70  # clusters of ViT-B on ImageNet, from the costs reported in comparisons


@dataclass(frozen=True, slots=True)
class VitCxOptions:
    """Options of ViT-CX; the defaults are those of the reference."""

    distance: float = option(0.1, "maps closer than this (1 - cosine) are one mask", low=0.0, high=2.0)
    noise: float = option(0.1, "standard deviation of what stands in for masked pixels", low=0.0)
    seed: int = option(0, "seed of the noise", low=0)


@dataclass(frozen=True, slots=True, eq=False)
class Maps:
    """Feature maps that are enlarged to the image size in batches, so that not all enlarged maps are in memory."""

    values: Array  # (d, rows, columns)
    down: Array  # (H, rows), interpolation of rows
    across: Array  # (W, columns), interpolation of columns

    @classmethod
    def of(cls, values: Array, size: tuple[int, int]) -> Maps:
        return cls(values, *matrices(size, values.shape[1:]))

    def large(self) -> Iterator[Array]:
        """The enlarged maps, in batches (M, H, W)."""
        for start in range(0, len(self.values), AT_ONCE):
            yield self.down @ self.values[start : start + AT_ONCE] @ self.across.T

    def range(self) -> tuple[Array, Array]:
        """The minimum and the range (maximum minus minimum) of each enlarged map, (d,) each."""
        ends = [(part.min(axis=(1, 2)), part.max(axis=(1, 2))) for part in self.large()]
        low, high = (np.concatenate(side) for side in zip(*ends, strict=True))
        return low, high - low

    def products(self) -> tuple[Array, Array]:
        """Inner products (d, d) and sums (d,) of the enlarged maps, without enlarging: <U a, U b> = a (U^T U) b.

        U is `down` along rows and `across` along columns, so U^T U is separable too.
        """
        gram = (self.down.T @ self.down) @ self.values @ (self.across.T @ self.across)
        flat = self.values.reshape(len(self.values), -1)
        weights = np.outer(self.down.sum(axis=0), self.across.sum(axis=0)).ravel()
        return flat @ gram.reshape(len(flat), -1).T, flat @ weights


def vit_cx(trace: Trace, architecture: Architecture, options: VitCxOptions, passes: Passes) -> Relevance:
    """1/K sum_i s_i M_i / sum_j M_j, (H, W), with s_i = p(x M_i + e_i (1 - M_i)) - p(x + e_i (1 - M_i)) + p(x).

    M_i are the masks and e_i noise.
    """
    size, block = architecture.input_dims.size, architecture.blocks[-1]
    features = Patches(trace, block).value("normed").T.reshape(-1, *block.grid)
    masks = cluster(Maps.of(features, size), options.distance)
    (original,) = passes.probabilities(trace.input[None])
    rng = np.random.default_rng(options.seed)
    weighed, covered = np.zeros(size), np.zeros(size)
    low, span = masks.range()
    start = 0
    for large in masks.large():
        part = slice(start, start + len(large))
        start += len(large)
        M = _scaled(large, low[part, None, None], span[part, None, None])
        noise = options.noise * rng.standard_normal((len(M), *trace.input.shape))
        gap = noise * (1 - M[:, None])
        both = np.concatenate([trace.input * M[:, None] + gap, trace.input + gap]).astype(trace.input.dtype)
        masked, unmasked = np.split(passes.probabilities(both), 2)
        weighed += np.tensordot(masked - unmasked + original, M, axes=1)
        covered += M.sum(axis=0)
    scores = np.divide(weighed, covered, out=np.zeros(size), where=covered > 0) / len(masks.values)
    return Relevance(
        scores=read_only(scores),
        checks={"masks": float(len(masks.values)), "uncovered": float((covered == 0).mean())},
    )


def cluster(maps: Maps, distance: float) -> Maps:
    """One map per cluster: the sum of its members, each scaled to 0 ... 1."""
    low, span = maps.range()
    labels = _labels(_distances(maps, low, span), distance)
    scale = np.divide(1.0, span, out=np.zeros_like(span), where=span > 0)  # a constant map becomes 0
    scaled = (maps.values - low[:, None, None]) * scale[:, None, None]
    sums = np.zeros((labels.max() + 1, *maps.values.shape[1:]))
    np.add.at(sums, labels, scaled)  # before enlarging, which is linear and keeps constants
    return Maps(sums, maps.down, maps.across)


def _distances(maps: Maps, low: Array, span: Array) -> Array:
    """1 - cosine of the enlarged maps minus their minima, (d, d); dividing by the range would not change a cosine."""
    gram, sums = maps.products()
    pixels = len(maps.down) * len(maps.across)
    centred = gram - np.outer(low, sums) - np.outer(sums, low) + np.outer(low, low) * pixels
    norms = np.sqrt(np.maximum(np.diag(centred), 0)) * (span > 0)
    scale = np.outer(norms, norms)
    cosine = np.divide(centred, scale, out=np.zeros_like(centred), where=scale > 0)
    np.fill_diagonal(cosine, 1.0)
    return np.asarray(np.maximum(1 - (cosine + cosine.T) / 2, 0))


def _labels(distances: Array, threshold: float) -> Array:
    """The cluster of each map, (d,), by complete linkage: all members of a cluster are closer than the threshold.

    Clusters are numbered by their first members, so that the noise of each does not depend on SciPy's numbering.
    """
    if len(distances) == 1:
        return np.zeros(1, int)
    hierarchy, distance = import_optional("scipy.cluster.hierarchy"), import_optional("scipy.spatial.distance")
    tree = hierarchy.linkage(distance.squareform(distances, checks=False), "complete")
    below = np.nextafter(threshold, -np.inf)  # SciPy also joins clusters at the threshold itself
    _, first, number = np.unique(hierarchy.fcluster(tree, below, "distance"), return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[number])


def _scaled(large: Array, low: Array, span: Array) -> Array:
    return np.asarray(np.divide(large - low, span, out=np.zeros_like(large), where=span > 0))


VIT_CX = method(
    Method(
        name="vit-cx",
        summary="clustered feature maps, weighed by what each does to the probability of the class",
        reference="Xie et al., ViT-CX: Causal Explanation of Vision Transformers, IJCAI 2023",
        options=VitCxOptions,
        needs=lambda _, model: Needs(normed=model.last_block),
        run=vit_cx,
        cost=lambda _: Cost(2 + 2 * TYPICAL, 0, "two for each cluster of feature maps; about 70 clusters in ViT-B"),
    )
)
