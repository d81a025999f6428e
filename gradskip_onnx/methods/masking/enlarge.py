"""Interpolation matrices from a grid to the image: a map is enlarged as `down @ map @ across.T`."""

from __future__ import annotations

import numpy as np

from gradskip_onnx.types import Array


def half_pixel(new: int, old: int, *, mirrored: bool = False) -> Array:
    """(new, old): linear weights, sample i of an axis at i + 1/2.

    Beyond the outer centres the edge holds; `mirrored`, the samples are reflected about the outer centres instead.
    """
    centre = (np.arange(new) + 0.5) * old / new - 0.5
    if mirrored:
        centre = (old - 1) - np.abs((old - 1) - np.abs(centre))
    centre = np.clip(centre, 0, old - 1)
    below = np.floor(centre).astype(int)
    matrix = np.zeros((new, old))
    np.add.at(matrix, (np.arange(new), below), 1 - (centre - below))
    np.add.at(matrix, (np.arange(new), np.minimum(below + 1, old - 1)), centre - below)
    return matrix


def nearest(new: int, old: int) -> Array:
    """(new,): the cell that holds each new centre."""
    return (2 * np.arange(new) + 1) * old // (2 * new)
