"""Spectral clusters: spectra known from graph theory, planted minorities that must be found, clouds that must not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradskip_onnx.findings.clusters import find_clusters
from gradskip_onnx.findings.observed import directions, distributions
from gradskip_onnx.findings.spectral import compact, neighbour_affinity, partition, sparsely_linked, spectrum

from .made_audits import anywhere, hill, in_corner, observed_of

pytest.importorskip("pyarrow")
pytest.importorskip("sklearn")


def test_the_spectrum_of_a_complete_graph():
    """Eigenvalues of the normalised Laplacian of n linked points: 0 once, n / (n - 1) otherwise."""
    values, _ = spectrum(1.0 - np.eye(5), 3)

    assert values == pytest.approx([0, 1.25, 1.25], abs=1e-12)


def test_the_spectrum_of_a_ring():
    """1 - cos(2 pi k / n)."""
    ring = np.roll(np.eye(8), 1, axis=1) + np.roll(np.eye(8), -1, axis=1)

    values, _ = spectrum(ring, 4)

    assert values == pytest.approx([0, 1 - np.cos(np.pi / 4), 1 - np.cos(np.pi / 4), 1], abs=1e-12)


def test_a_graph_in_two_parts_has_the_eigenvalue_zero_twice():
    clique = 1.0 - np.eye(4)
    values, _ = spectrum(np.kron(np.eye(2), clique), 3)

    assert values == pytest.approx([0, 0, 4 / 3], abs=1e-12)


def test_neighbours_are_linked_both_ways():
    distances = distances_of(np.array([[0.0], [1.0], [2.1], [9.0]]))

    linked = neighbour_affinity(distances, 1)  # the nearest of 0, 1, 2, 3 are 1, 0, 1, 2

    assert linked.tolist() == [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]


def stands_apart(distances: Any, affinity: Any, mine: Any) -> bool:
    return sparsely_linked(affinity, mine) and compact(distances, mine)


def distances_of(points: Any) -> Any:
    return np.linalg.norm(points[:, None] - points[None], axis=2)


def test_two_heaps_are_two_clusters_and_a_cloud_is_one():
    rng = np.random.default_rng(0)
    heaps = np.concatenate([rng.normal(0, 1, (40, 3)), rng.normal(12, 1, (20, 3))])

    found = partition(heaps, 0)

    assert found.count == 2
    assert len(set(found.labels[:40])) == len(set(found.labels[40:])) == 1
    for seed in range(10):
        assert partition(np.random.default_rng(seed).random((300, 2)), 0).count == 1


def test_a_piece_of_a_cloud_does_not_stand_apart_until_it_is_moved_away():
    points = np.random.default_rng(0).random((400, 2))
    piece = points[:, 0] > 0.7

    def apart(away: float) -> bool:
        moved = distances_of(points + away * piece[:, None])
        return stands_apart(moved, neighbour_affinity(moved), piece)

    assert [apart(0.0), apart(0.1), apart(2.0)] == [False, False, True]


def test_a_piece_of_a_row_of_points_does_not_stand_apart():
    """A piece of a long thin cloud has few links to the rest, but not fewer than a cut through it."""
    points = np.random.default_rng(0).random((400, 1))
    distances = distances_of(points)

    for start in (0.5, 0.7, 0.9):
        assert not stands_apart(distances, neighbour_affinity(distances), (points > start).ravel())


def test_directions_and_distributions():
    maps = np.array([[1.0, 2.0, 3.0], [0.1, 0.1, 0.1], [-1.0, 0.0, 3.0]])

    assert directions(maps)[:2] == pytest.approx(np.array([[-1, 0, 1], [0, 0, 0]]) / np.sqrt(2))
    assert distributions(maps)[[0, 2]] == pytest.approx(np.array([[1 / 6, 1 / 3, 1 / 2], [0, 0, 1]]))


def test_a_planted_minority_is_found_with_its_images_and_its_place(tmp_path):
    """20 of 200 images look at the lower right corner, wherever their object is."""
    maps = [*anywhere(180), *in_corner(20)]
    inside = [0.6] * 180 + [0.02] * 20

    found = find_clusters(observed_of(tmp_path, maps, [0, 1] * 90 + [1] * 20, inside=inside, border=inside[::-1]))

    minority = [one for one in found if one.minority]
    assert {one.index for one in minority} == {None, 1}
    for one in minority:
        assert sorted(one.members) == list(range(180, 200))
        assert one.size == 20
        assert one.agreement > 0.9
        assert "bottom right" in one.why
        assert "2% of the relevance lies inside known evidence (60% in the others)" in one.why
        assert one.centre.argmax() == one.centre.size - 1
        assert one.centre.sum() == pytest.approx(1, abs=1e-6)
    whole = next(one for one in minority if one.index is None)
    assert whole.share == 0.1
    assert "20 of them were explained as dog" in whole.why


@pytest.mark.parametrize("seed", range(4))
def test_objects_anywhere_are_no_minority(tmp_path, seed):
    assert find_clusters(observed_of(tmp_path, anywhere(150, seed), [0] * 150)) == ()


def test_a_whole_class_in_the_corner_is_a_minority_of_all_images(tmp_path):
    maps = [*anywhere(160), *in_corner(40)]

    found = find_clusters(observed_of(tmp_path, maps, [0, 1] * 80 + [2] * 40))

    assert [(one.index, one.size, one.minority) for one in found] == [(None, 160, False), (None, 40, True)]


def test_two_places_of_one_class_are_two_clusters_but_half_is_no_minority(tmp_path):
    rng = np.random.default_rng(0)
    maps = [hill(rng, 0.2, 0.2) for _ in range(30)] + [hill(rng, 0.8, 0.8) for _ in range(31)]

    found = find_clusters(observed_of(tmp_path, maps, [0] * 61))

    assert [(one.size, one.minority) for one in found] == [(31, False), (30, True)]


def test_few_images_and_constant_maps_are_not_clustered(tmp_path):
    assert find_clusters(observed_of(tmp_path / "few", in_corner(19), [0] * 19)) == ()
    assert find_clusters(observed_of(tmp_path / "flat", [np.ones((4, 4))] * 40, [0] * 40)) == ()


def test_many_images_are_sampled_and_the_sample_hangs_on_the_seed(tmp_path, monkeypatch):
    monkeypatch.setattr("gradskip_onnx.findings.clusters.MOST_OF_ALL", 150)
    observed = observed_of(tmp_path, [*anywhere(180), *in_corner(60)], [0] * 240)

    first, again = find_clusters(observed), find_clusters(observed)

    assert sum(one.size for one in first) == 150
    assert [one.members for one in first] == [one.members for one in again]
    assert first[1].minority
