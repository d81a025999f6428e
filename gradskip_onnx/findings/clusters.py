"""Clusters of explanation patterns, of each class and of all images, and which of them are a strategy of a minority."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradskip_onnx.drawing.outline import smallest_area
from gradskip_onnx.imports.optional import import_optional
from gradskip_onnx.types import Array, Size

from .found import Cluster
from .mirrored import Crowds
from .observed import MOST_KEPT, NO_CLASS, Observed, directions, distributions
from .spectral import NEIGHBOURS, Partition, partition

MOST_OF_ALL, MOST_OF_CLASS = 2000, 500  # images clustered together: more are sampled with the seed
ALL, CLASS = 1, 2  # what maps are drawn for
FEWEST = 2 * NEIGHBOURS  # images below which clusters are not looked for
SMALLEST = 15  # members of a cluster that is called a strategy: any ten neighbours look like one now and then
LARGEST_MINORITY = 0.5
SEPARATED = 0.25  # mean silhouette up to which Kaufman and Rousseeuw (1990) see no substantial structure
ELSEWHERE = 0.5  # of the correlation within a cluster: with less to others, its maps show another place
HALF = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Clustered:
    """The maps that were clustered together, in the order of the data."""

    index: int | None
    positions: Array
    maps: Array  # (n, cells)
    partition: Partition
    correlations: Array  # (n, n) of all pairs
    silhouettes: Array  # (n,)


def find_clusters(observed: Observed) -> tuple[Cluster, ...]:
    """The clusters of all images, then those of each class; none where all maps are of one kind."""
    classes = observed.classes("target")[np.isin(observed.positions, observed.explained)]
    indices = np.unique(classes[classes != NO_CLASS])
    most = min(MOST_OF_CLASS, MOST_KEPT // max(1, len(indices)))
    groups: dict[int | None, Array] = {None: observed.draw(observed.explained, MOST_OF_ALL, ALL)}
    for index in indices if len(indices) > 1 else ():  # one class alone is all images
        groups[int(index)] = observed.draw(observed.explained[classes == index], most, CLASS)
    groups = {index: positions for index, positions in groups.items() if len(positions) >= FEWEST}
    kept = observed.keep(groups.values())
    return tuple(
        described
        for index, positions in groups.items()
        if (clustered := cluster(index, positions, kept.of(positions), observed.grid, observed.seed))
        for described in _largest_first(observed, clustered)
    )


def cluster(index: int | None, positions: Array, maps: Array, grid: Size, seed: int) -> Clustered | None:
    """The clusters of maps (n, cells); None for too few, or if they are all of one kind."""
    points, roots = directions(maps), np.sqrt(distributions(maps))  # roots lie apart by their Hellinger distance
    usable = points.any(axis=1) & roots.any(axis=1)
    positions, maps, points, roots = positions[usable], maps[usable], points[usable], roots[usable]
    if len(positions) < FEWEST:
        return None
    parts = partition(roots, seed, Crowds(roots, grid, seed).one_sided)
    if parts.count == 1:
        return None
    correlations = points @ points.T
    apart = np.clip(1.0 - correlations, 0.0, None)
    np.fill_diagonal(apart, 0.0)
    metrics = import_optional("sklearn.metrics", "audit")
    silhouettes = metrics.silhouette_samples(apart, parts.labels, metric="precomputed")
    return Clustered(index, positions, maps, parts, correlations, silhouettes)


def _largest_first(observed: Observed, clustered: Clustered) -> Iterator[Cluster]:
    sizes = np.bincount(clustered.partition.labels)
    for label in np.argsort(-sizes, kind="stable"):
        yield describe(observed, clustered, int(label))


def describe(observed: Observed, clustered: Clustered, label: int) -> Cluster:
    """One cluster with its numbers, and whether it is a strategy of a minority."""
    mine, apart = clustered.partition.labels == label, label in clustered.partition.apart
    size, share = int(mine.sum()), float(mine.mean())
    correlations, separation = clustered.correlations, float(clustered.silhouettes[mine].mean())
    own, others = correlations[np.ix_(mine, mine)], correlations[np.ix_(mine, ~mine)]
    agreement = float((own.sum() - size) / (size * (size - 1))) if size > 1 else 1.0
    typical = np.argsort(-own.sum(axis=1), kind="stable")
    members = clustered.positions[mine][typical]
    centre = distributions(clustered.maps[mine]).mean(axis=0).reshape(observed.grid)
    elsewhere = float(others.mean()) <= ELSEWHERE * agreement
    minority = apart and elsewhere and size >= SMALLEST and share <= LARGEST_MINORITY and separation >= SEPARATED
    texts = [
        f"{size} of {len(mine)} images ({share:.0%})",
        *(_classes(observed, members) if clustered.index is None else ()),
        _place(centre),
        *_evidence(observed, clustered.positions[mine], clustered.positions[~mine]),
        f"maps correlate by {agreement:.2f} with each other, by {others.mean():.2f} with the others "
        f"(silhouette {separation:.2f})",
    ]
    return Cluster(
        index=clustered.index,
        size=size,
        share=share,
        centre=centre,
        members=tuple(int(position) for position in members),
        agreement=agreement,
        separation=separation,
        minority=minority,
        why="; ".join(texts),
    )


def _place(centre: Array) -> str:
    """Where the mean map is, in words."""
    if not centre.any():
        return "no positive relevance"
    area = float(smallest_area(centre, HALF).mean())
    down, across = ((np.arange(side) + 0.5) / side for side in centre.shape)
    row, column = float(centre.sum(axis=1) @ down / centre.sum()), float(centre.sum(axis=0) @ across / centre.sum())
    words = [("top", "", "bottom")[min(2, int(row * 3))], ("left", "", "right")[min(2, int(column * 3))]]
    where = " ".join(word for word in words if word) or "middle"
    return f"half of the mean map's relevance lies in {area:.0%} of the image, about the {where}"


def _evidence(observed: Observed, mine: Array, others: Array) -> Iterator[str]:
    """What lies in known boxes or masks and on the border, beside the same of the other clusters."""
    for name, words in (("inside", "inside known evidence"), ("border", "on the border")):
        values = observed.number(name)
        pair = [values[np.isin(observed.positions, part)] for part in (mine, others)]
        if all((~np.isnan(part)).any() for part in pair):
            own, other = (float(np.nanmean(part)) for part in pair)
            yield f"{own:.0%} of the relevance lies {words} ({other:.0%} in the others)"


def _classes(observed: Observed, members: Array) -> Iterator[str]:
    """The class that most members share, if half of them do."""
    targets = observed.classes("target")[np.isin(observed.positions, members)]
    indices, counts = np.unique(targets[targets != NO_CLASS], return_counts=True)
    if len(counts) and counts.max() >= len(members) / 2:
        most = int(indices[counts.argmax()])
        yield f"{counts.max()} of them were explained as {observed.audit.label_of(most)}"
