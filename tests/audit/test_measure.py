"""Statistics of a map, against numbers counted by hand and against sums over a fine raster."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gradskip_onnx.audit.measure import border_cover, cover_of, map_numbers, peak_in, share_in

MAP = np.array([[0, 0, 0, 0], [0, 3, 1, 0], [0, -2, 0, 0], [0, 0, 0, 0]], np.float32)


def test_a_map_by_hand():
    found = map_numbers(MAP)

    assert found["map_total"] == 2
    assert found["negative_share"] == pytest.approx(2 / 6)
    assert (found["peak_row"], found["peak_column"]) == (0.375, 0.375)
    assert found["centre_row"] == pytest.approx(0.375)
    assert found["centre_column"] == pytest.approx(0.75 * 0.375 + 0.25 * 0.625)
    variance = 0.75 * (0.375 - 0.4375) ** 2 + 0.25 * (0.625 - 0.4375) ** 2  # columns only: both are in one row
    assert found["spread"] == pytest.approx(math.sqrt(variance) / math.sqrt(2))
    assert found["border"] == 0  # the outermost tenth lies in the outer entries alone
    # Gini of 14 zeros, 1 and 3: mean absolute difference of all pairs over twice the mean
    values = [0.0] * 14 + [1.0, 3.0]
    pairs = sum(abs(a - b) for a in values for b in values) / 16**2
    assert found["concentration"] == pytest.approx(pairs / (2 * 4 / 16))


def test_a_flat_map():
    found = map_numbers(np.ones((10, 10)))

    assert found["border"] == pytest.approx(1 - 0.8 * 0.8)
    assert found["concentration"] == 0
    assert (found["centre_row"], found["centre_column"]) == (pytest.approx(0.5), pytest.approx(0.5))


@pytest.mark.parametrize("map_", [np.zeros((3, 3)), -np.ones((3, 3))])
def test_nothing_positive(map_):
    """Where nothing speaks for the class there is no centre, and no share of anything."""
    found = map_numbers(map_)

    assert found["negative_share"] in (0.0, 1.0)
    assert "centre_row" not in found
    assert "border" not in found
    assert share_in(map_, np.ones((3, 3))) is None


@pytest.mark.parametrize("size", [(7, 12), (14, 14), (3, 5)])
def test_the_border_as_on_a_fine_raster(size):
    """Entries that lie partly in the border count in part: as on a raster of 1200 times 1200 points."""
    places = (np.arange(1200) + 0.5) / 1200
    near = (places < 0.1) | (places > 0.9)
    raster = near[:, None] | near[None, :]
    rows, columns = (np.minimum((places * length).astype(int), length - 1) for length in size)
    expected = np.zeros(size)
    count = np.zeros(size)
    np.add.at(expected, (rows[:, None], columns[None, :]), raster)
    np.add.at(count, (rows[:, None], columns[None, :]), 1)

    assert border_cover(size) == pytest.approx(expected / count, abs=0.02)


def test_cover_of_pixels():
    pixels = np.zeros((8, 8), bool)
    pixels[:4, :2] = True

    assert cover_of(pixels, (2, 2)).tolist() == [[0.5, 0], [0, 0]]
    assert cover_of(pixels, (8, 8)).sum() == 8


def test_share_and_peak():
    pixels = np.zeros((8, 8), bool)
    pixels[2:4, 2:4] = True  # the entry with 3

    assert share_in(MAP, cover_of(pixels, (4, 4))) == 0.75
    assert peak_in(MAP, pixels)
    assert not peak_in(MAP.T[::-1], pixels)
