"""Spectral clustering of maps, as in SpRAy (Lapuschkin et al. 2019): neighbours, Laplacian, eigengap, k-means.

Lapuschkin et al.: Unmasking Clever Hans predictors and assessing what machines really learn. Nature Communications 10,
1096 (2019); the clustering of the embedding is that of Ng, Jordan and Weiss (2001).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.imports.optional import import_optional
from gradskip_onnx.types import Array

NEIGHBOURS = 10
MOST_CLUSTERS = 8
STARTS = 10  # of k-means
NEARER = 0.9


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """The cluster of each map, and the spectrum that decided how many there are."""

    labels: Array  # (n,), from 0
    apart: tuple[int, ...]  # the labels of clusters that stand apart; what does not is one cluster, the last
    eigenvalues: Array  # the smallest of the Laplacian, rising from 0

    @property
    def count(self) -> int:
        return int(self.labels.max()) + 1


def partition(points: Array, seed: int, special: Callable[[Array], bool] | None = None) -> Partition:
    """Clusters of points (n, d): as many as the largest gap of the spectrum says, of which those that stand apart stay.

    A cloud without gaps is cut somewhere too: its pieces do not stand apart, and are put together again.
    A cluster with few links to the others stays too if `special`, of which points are its members, says so.
    """
    distances = import_optional("scipy.spatial.distance", "audit").cdist(points, points)
    affinity = neighbour_affinity(distances)
    eigenvalues, vectors = spectrum(affinity, MOST_CLUSTERS + 1)
    count = 1 + int(np.argmax(np.diff(eigenvalues)))
    embedded = vectors[:, :count]
    embedded = embedded / np.maximum(np.linalg.norm(embedded, axis=1, keepdims=True), np.finfo(float).tiny)
    cluster = import_optional("sklearn.cluster", "audit").KMeans(count, n_init=STARTS, random_state=seed)
    found = cluster.fit_predict(embedded)
    members = [found == label for label in range(count)]
    apart = [
        label
        for label, mine in enumerate(members)
        if sparsely_linked(affinity, mine) and (compact(distances, mine) or (special is not None and special(mine)))
    ]
    labels = np.full(len(points), len(apart), np.int64)
    for new, old in enumerate(apart):
        labels[found == old] = new
    return Partition(labels, tuple(range(len(apart))), eigenvalues)


def neighbour_affinity(distances: Array, count: int = NEIGHBOURS) -> Array:
    """(n, n): 1 where one of two points is among the `count` nearest of the other, else 0."""
    others = distances + np.diag(np.full(len(distances), np.inf))
    nearest = np.argsort(others, axis=1, kind="stable")[:, : min(count, len(distances) - 1)]
    linked = np.zeros_like(distances)
    np.put_along_axis(linked, nearest, 1.0, axis=1)
    return np.asarray(np.maximum(linked, linked.T))


def compact(distances: Array, mine: Array) -> bool:
    """Whether at least NEARER of a cluster are on average nearer to its others than to any point outside.

    For small clusters, whose links say little.
    """
    to_own = distances[np.ix_(mine, mine)].sum(axis=1) / (mine.sum() - 1)
    return bool((to_own < distances[np.ix_(mine, ~mine)].min(axis=1)).mean() >= NEARER)


def sparsely_linked(affinity: Array, mine: Array) -> bool:
    """Whether the links of a cluster to the outside are sparser than any cut through it.

    The conductance of a cut is the share of the links of its smaller side that it cuts, and by Cheeger's inequality no
    cut through the cluster has less than half of the second eigenvalue of its own Laplacian.
    """
    own = affinity[np.ix_(mine, mine)]
    if not 2 < len(own) < len(mine) or not own.any(axis=1).all():
        return False
    leaving = 1.0 - own.sum() / affinity[mine].sum()
    return bool(leaving < spectrum(own, 2)[0][1] / 2)


def spectrum(affinity: Array, count: int) -> tuple[Array, Array]:
    """The smallest eigenvalues of the normalised Laplacian 1 - D^(-1/2) A D^(-1/2), and their vectors (n, count)."""
    scale = 1.0 / np.sqrt(affinity.sum(axis=1))
    laplacian = np.eye(len(affinity)) - scale[:, None] * affinity * scale
    last = min(count, len(affinity)) - 1
    values, vectors = import_optional("scipy.linalg", "audit").eigh(laplacian, subset_by_index=(0, last))
    return np.maximum(values, 0.0), vectors
