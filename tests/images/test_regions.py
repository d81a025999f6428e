"""Regions of an image on the grid of the scores, also where the input reaches beyond the image."""

from __future__ import annotations

import numpy as np
import pytest

from gradskip_onnx.images.preprocess import Geometry
from gradskip_onnx.images.regions import weigh

WHOLE = Geometry((40, 80), (0.0, 0.0, 80.0, 40.0))
PADDED = Geometry((40, 80), (0.0, -20.0, 80.0, 60.0))  # a wide image in a square input


def mask(top: int, bottom: int, left: int, right: int) -> np.ndarray:
    found = np.zeros((40, 80))
    found[top:bottom, left:right] = 1
    return found


def test_a_mask_lies_inside_the_padding():
    """The image is the middle half of the rows: what covers it all covers these alone."""
    weights = weigh(mask(0, 40, 0, 80), PADDED, (8, 4))

    np.testing.assert_array_equal(weights, np.repeat([0, 0, 1, 1, 1, 1, 0, 0], 4).reshape(8, 4))


def test_a_mask_without_padding_is_the_share_of_each_cell():
    weights = weigh(mask(0, 10, 0, 30), WHOLE, (2, 4))

    np.testing.assert_allclose(weights, [[0.5, 0.25, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])


@pytest.mark.parametrize("beyond", [1e-9, -1e-9])
def test_edges_that_are_off_by_rounding_change_nothing(beyond: float):
    nearly = Geometry((40, 80), (-beyond, -beyond, 80.0 + beyond, 40.0 + beyond))

    np.testing.assert_allclose(
        weigh(mask(5, 20, 3, 30), nearly, (4, 4)), weigh(mask(5, 20, 3, 30), WHOLE, (4, 4)), atol=1e-6
    )


def test_a_point_lies_inside_the_padding():
    assert np.argwhere(weigh((79.0, 0.0), PADDED, (8, 4)) == 1).tolist() == [[2, 3]]
