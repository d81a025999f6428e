"""Crowds of maps at one place: hand-worked counts, a logo beside an object, clouds that lean to a side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradskip_onnx.findings.clusters import find_clusters
from gradskip_onnx.findings.mirrored import Crowds, crowd, mirror_images
from gradskip_onnx.findings.observed import distributions
from gradskip_onnx.findings.spectral import compact, neighbour_affinity, sparsely_linked

from .made_audits import anywhere, hill, observed_of

pytest.importorskip("pyarrow")
pytest.importorskip("sklearn")


def roots_of(maps: Any) -> Any:
    return np.sqrt(distributions(np.reshape(maps, (len(maps), -1))))


def with_logo(count: int, rng: np.random.Generator) -> list[Any]:
    """Maps with 0.35 to 1 of their relevance in the lower right corner, the rest on an object that may be anywhere."""
    shares = rng.uniform(0.35, 1, count)
    places = rng.uniform(0.15, 0.85, (count, 2))
    objects = [hill(rng, row, column, noise=0.002) for row, column in places]
    return [
        share * hill(rng, 0.94, 0.94, noise=0.002) + (1 - share) / 2 * one
        for share, one in zip(shares, objects, strict=True)
    ]  # the hill in the corner is cut: it has about half of the relevance of a whole one


def test_mirror_images_of_an_oblong_and_of_a_square():
    assert mirror_images((1, 2)).tolist() == [[0, 1], [0, 1], [1, 0], [1, 0]]
    square = mirror_images((2, 2))

    assert len({tuple(image) for image in square.tolist()}) == len(square) == 8
    assert all(sorted(image) == [0, 1, 2, 3] for image in square.tolist())


def test_a_crowd_is_the_other_maps_that_overlap_by_half():
    maps = np.array(
        [[1.0, 0, 0, 0], [1, 0, 0, 0], [1, 3, 0, 0], [1, 3.1, 0, 0]]
    )  # roots: 1, 1, 1/2 and less on the first

    assert crowd(roots_of(maps)).tolist() == [2, 2, 3, 1]


def test_the_crowd_by_chance_of_maps_in_one_corner():
    """Each of 9 maps in one corner of four meets each other with chance 1/4."""
    corner = np.zeros((9, 2, 2))
    corner[:, 1, 1] = 1

    mean, deviation = Crowds(roots_of(corner), (2, 2), 0)._chances

    assert mean == pytest.approx(np.full(9, 8 / 4))
    assert deviation == pytest.approx(np.full(9, np.sqrt(8 * 3 / 16)))


def test_a_corner_is_one_sided_and_the_middle_is_not():
    rng = np.random.default_rng(0)
    mine = np.arange(100) < 30

    def one_sided(row: float, column: float) -> bool:
        maps = [*(hill(rng, row, column) for _ in range(30)), *anywhere(70)]
        return Crowds(roots_of(maps), (12, 12), 0).one_sided(mine)

    assert [one_sided(0.94, 0.94), one_sided(0.06, 0.5), one_sided(0.5, 0.5)] == [True, True, False]


def test_a_piece_of_a_cloud_on_one_side_is_not_one_sided():
    """All images lean to the lower half, or to the lower right quarter, as much as the piece does."""
    for left in (0.05, 0.5):
        rng = np.random.default_rng(0)
        places = np.stack([rng.uniform(0.5, 0.95, 100), rng.uniform(left, 0.95, 100)], axis=1)
        maps = [hill(rng, *place) for place in places]

        assert not Crowds(roots_of(maps), (12, 12), 0).one_sided(places[:, 1] > 0.7)


@pytest.mark.parametrize("seed", range(3))
def test_a_logo_that_shares_the_map_with_an_object_is_a_minority(tmp_path, seed):
    """The maps reach from the logo to the objects without a gap, so that the cluster is not compact."""
    maps = [*anywhere(80, seed), *with_logo(40, np.random.default_rng(seed))]

    found = [one for one in find_clusters(observed_of(tmp_path, maps, [0] * 120)) if one.minority]

    assert len(found) == 1
    assert len(found[0].members) >= 30
    assert np.mean(np.array(found[0].members) >= 80) >= 0.9  # now and then an object lies beside the logo
    assert "bottom right" in found[0].why
    roots = roots_of(maps)
    distances = np.linalg.norm(roots[:, None] - roots[None], axis=2)
    mine = np.isin(np.arange(120), found[0].members)
    assert sparsely_linked(neighbour_affinity(distances), mine)
    assert not compact(distances, mine)


@pytest.mark.slow
@pytest.mark.parametrize("count", [40, 100])
def test_clouds_without_structure_are_seldom_cut_and_hold_no_minority(tmp_path, count):
    found = [
        find_clusters(observed_of(tmp_path / str(seed), anywhere(count, seed), [0] * count)) for seed in range(100)
    ]

    assert sum(bool(clusters) for clusters in found) <= 8
    assert not any(one.minority for clusters in found for one in clusters)
