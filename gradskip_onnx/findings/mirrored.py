"""Whether a cluster of maps crowds at one place of the image, against the same maps mirrored and turned at random.

A strategy that hangs on a mark in a corner is always in the same corner; objects that may be anywhere are as often in
the others. So each map may be exchanged for its mirror images (and turned ones, on a square grid), and the crowd at the
place of a cluster is set against what such exchanges give.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gradskip_onnx.types import Array, Size

OVERLAP = 0.5  # Bhattacharyya coefficient from which two maps lie at one place
CROWDED = 2.0  # times as crowded as mirrored, relative to the images outside the cluster
DRAWS = 99  # a crowd above all of them has p = 0.01


@dataclass(frozen=True, eq=False)
class Crowds:
    """How many maps lie where each one lies, and how many would if each other were mirrored at random."""

    roots: Array  # (n, cells) square roots of distributions: a product of two is their Bhattacharyya coefficient
    grid: Size
    seed: int

    def one_sided(self, mine: Array) -> bool:
        """Whether the members of a cluster crowd at one place as neither the other images nor mirrored ones do."""
        counts = crowd(self.roots)
        expected = self._chances[0]
        inside, outside = (counts[part].sum() / max(expected[part].sum(), 1.0) for part in (mine, ~mine))
        if inside < CROWDED * max(outside, 1.0):
            return False
        return bool(self._excess(counts)[mine].max() > self._most_by_chance)

    @cached_property
    def _chances(self) -> tuple[Array, Array]:
        """Mean and standard deviation of the crowd of each map over mirror images of all others, (n,) each."""
        views = mirror_images(self.grid)
        chances = np.zeros((len(self.roots), len(self.roots)))
        for view in views:
            chances += (self.roots @ self.roots[:, view].T >= OVERLAP) / len(views)
        np.fill_diagonal(chances, 0.0)
        return chances.sum(axis=1), np.sqrt((chances * (1.0 - chances)).sum(axis=1))

    @cached_property
    def _most_by_chance(self) -> float:
        """The largest excess of any map in DRAWS sets of the same maps, each mirrored at random."""
        views, rng = mirror_images(self.grid), np.random.default_rng(self.seed)
        draws = (views[rng.integers(len(views), size=len(self.roots))] for _ in range(DRAWS))
        return max(float(self._excess(crowd(np.take_along_axis(self.roots, draw, axis=1))).max()) for draw in draws)

    def _excess(self, counts: Array) -> Array:
        """Crowds above their mean, in standard deviations; 0 where mirroring changes nothing."""
        mean, deviation = self._chances
        return np.asarray(np.divide(counts - mean, deviation, out=np.zeros_like(mean), where=deviation > 0))


def crowd(roots: Array) -> Array:
    """How many other maps lie where each map lies, (n,)."""
    near = roots @ roots.T >= OVERLAP
    np.fill_diagonal(near, False)
    return np.asarray(near.sum(axis=1))


def mirror_images(grid: Size) -> Array:
    """The cells of a grid in the order of each mirror image, (4, cells); with turns, if it is square, (8, cells)."""
    cells = np.arange(grid[0] * grid[1]).reshape(grid)
    images = [cells, cells[::-1], cells[:, ::-1], cells[::-1, ::-1]]
    if grid[0] == grid[1]:
        images += [image.T for image in images]
    return np.stack([image.reshape(-1) for image in images])
