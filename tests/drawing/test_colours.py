"""Palettes: brighter is more, for every eye, and the signs can be told apart."""

from __future__ import annotations

import numpy as np
import pytest

from gradskip_onnx.drawing.colours import AGAINST, FOR, PALETTES, STEPS, paint
from gradskip_onnx.types import Array

# Linear sRGB seen by eyes lacking one cone type (Viénot, Brettel and Mollon 1999, rounded).
BLINDNESS = {
    "none": np.eye(3),
    "protan": np.array([[0.11, 0.89, 0.0], [0.11, 0.89, 0.0], [0.0, 0.0, 1.0]]),
    "deutan": np.array([[0.29, 0.71, 0.0], [0.29, 0.71, 0.0], [-0.02, 0.02, 1.0]]),
}
TABLES = {**PALETTES, "for": FOR, "against": AGAINST}


def linear(colours: Array) -> Array:
    unit = colours / 255
    return np.asarray(np.where(unit <= 0.04045, unit / 12.92, ((unit + 0.055) / 1.055) ** 2.4))


def lightness(colours: Array, eye: str = "none") -> Array:
    """CIE L* of what an eye sees."""
    seen = np.clip(linear(colours) @ BLINDNESS[eye].T, 0, 1) @ np.array([0.2126, 0.7152, 0.0722])
    return np.asarray(np.where(seen > 216 / 24389, 116 * np.cbrt(seen) - 16, seen * 24389 / 27))


@pytest.mark.parametrize("eye", BLINDNESS)
@pytest.mark.parametrize("name", TABLES)
def test_more_relevance_is_lighter_for_every_eye(name, eye):
    table = TABLES[name]

    assert (np.diff(lightness(table[::8], eye)) > 0).all()
    assert lightness(table[-1], eye) - lightness(table[0], eye) > 65


@pytest.mark.parametrize("eye", BLINDNESS)
def test_signs_can_be_told_apart(eye):
    """At equal strength one is bluer and equally light."""
    colours = [linear(table) @ BLINDNESS[eye].T for table in (FOR, AGAINST)]
    warm, cold = ((seen[:, 2] - seen[:, 0]) / seen.sum(axis=1) for seen in colours)

    assert (cold - warm > 0.3).all()
    assert np.abs(lightness(FOR) - lightness(AGAINST)).max() < 8


def test_ends_of_the_scale_take_the_ends_of_the_table():
    for table in TABLES.values():
        assert table.shape == (STEPS, 3)
        np.testing.assert_array_equal(paint(np.array([0.0, 1.0, 7.0]), table), table[[0, -1, -1]])
