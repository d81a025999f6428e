"""Factors that cancel: the values are those of the plain arithmetic, and no node is left of it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from gradskip_onnx.autodiff.factors import over, times
from gradskip_onnx.autodiff.partial_gradients import Piece

from .test_sym import emit_for, values

SCALE = float(np.float32(0.0137))


def left(emit, found) -> Counter[str]:
    """The operators that a tensor still depends on."""
    emit.drop_unused(0, [found])
    return Counter(node.op for node in emit.graph.nodes)


def test_a_scale_and_its_inverse_leave_nothing():
    emit = emit_for(np.float32, (None, 6))
    x = emit.sym("x")

    assert times(times(x, SCALE), 1 / SCALE) is not None
    assert times(times(x, SCALE), 1 / SCALE).name == x.name


def test_two_numbers_are_one():
    emit = emit_for(np.float32, (None, 6))
    array = np.arange(12, dtype=np.float32).reshape(2, 6)

    found = times(times(emit.sym("x"), 3.0), 0.5)

    assert left(emit, found) == {"Mul": 1}
    np.testing.assert_array_equal(values(emit, found.name, array), 1.5 * array)


def test_changes_of_layout_stand_between():
    emit = emit_for(np.float32, (None, 4, 6))
    array = np.arange(48, dtype=np.float32).reshape(2, 4, 6)

    found = times(times(emit.sym("x"), SCALE).transpose([0, 2, 1]).reshape((None, 24)), 1 / SCALE)

    assert "Mul" not in left(emit, found)
    np.testing.assert_array_equal(values(emit, found.name, array), array.transpose(0, 2, 1).reshape(2, 24))


def test_a_piece_is_multiplied_in_its_part():
    emit = emit_for(np.float32, (None, 6))
    piece = times(Piece(emit.sym("x"), 1, 2, 12), 2.0)

    assert (piece.start, piece.size) == (2, 12)
    assert piece.part.tensor.inputs[0].op == "Mul"


@pytest.mark.parametrize("weight_scale", [0.02, [0.02, 0.5, 1.0, 3.0, 0.1, 2.0]])
def test_a_scale_found_at_run_time_cancels_through_a_product(weight_scale):
    """((x (s r)) W) / s = x (r W), with r one number or one per column of the weight."""
    emit = emit_for(np.float32, (None, 6))
    array = np.arange(12, dtype=np.float32).reshape(2, 6)
    weight = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    x, r = emit.sym("x"), emit.const(np.asarray(weight_scale, np.float32), np.float32)
    s = x.apply("Abs").sum([0, 1], keepdims=False)
    both = s * r

    found = over((x * both) @ emit.const(weight, np.float32), s)

    kinds = left(emit, found)
    assert kinds["Div"] == kinds["ReduceSum"] == 0
    expected = (array * np.asarray(weight_scale, np.float32)) @ weight
    np.testing.assert_allclose(values(emit, found.name, array), expected, rtol=1e-5, atol=1e-5)


def test_what_is_no_factor_is_divided():
    emit = emit_for(np.float32, (None, 6))
    array = np.arange(12, dtype=np.float32).reshape(2, 6)
    x = emit.sym("x")
    s = x.apply("Abs").sum([0, 1], keepdims=False)

    found = over(x + 1, s)

    assert left(emit, found)["Div"] == 1
    np.testing.assert_allclose(values(emit, found.name, array), (array + 1) / np.abs(array).sum(), rtol=1e-6)
