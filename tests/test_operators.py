"""The table of operators is complete, true to ONNX's own descriptions, and the source of the narrower sets."""

from __future__ import annotations

from collections.abc import Set

import numpy as np
import onnx
import pytest

from gradskip_onnx.autodiff import GRADIENT
from gradskip_onnx.autodiff.constants import ARITHMETIC
from gradskip_onnx.autodiff.rules.table import NOTES
from gradskip_onnx.autodiff.rules.vjps import ZERO
from gradskip_onnx.graph.find.attention_input import NORM_OPERATORS
from gradskip_onnx.graph.find.patterns import NORMALISERS, TOLERATED
from gradskip_onnx.graph.read.bfloat16 import MOVERS
from gradskip_onnx.graph.rewrite import lowerings_quantised  # noqa: F401  (adds its rows)
from gradskip_onnx.graph.rewrite.lowerings import ACTIVATIONS, LOWERINGS
from gradskip_onnx.graph.shorten.uniform import MOVES
from gradskip_onnx.metrics.flop_rules import FREE, PRODUCTS, SIMPLE
from gradskip_onnx.operators import MICROSOFT, OPERATORS, Kind, of_kind

from .autodiff.gradient_models import one_node, run

CONTRIBUTED = "SimplifiedLayerNormalization"  # ONNX Runtime's, though it claims ONNX's own domain
ROUNDING = 1e-6  # of float32 kernels
STANDARD = sorted(name for name in OPERATORS if not name.startswith(MICROSOFT) and name != CONTRIBUTED)


def schema(op: str) -> onnx.defs.OpSchema:
    """The newest description that ONNX has."""
    return onnx.defs.get_schema(op)


# --- complete --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", sorted(GRADIENT))
def test_an_operator_with_a_gradient_has_a_row_and_a_cost(op: str):
    assert op in OPERATORS
    assert op in {*PRODUCTS, *SIMPLE, *FREE}


@pytest.mark.parametrize(("domain", "op"), sorted(LOWERINGS))
def test_an_operator_that_is_rewritten_has_a_row(domain: str, op: str):
    assert Kind.FUSED in OPERATORS[f"{domain}.{op}" if domain else op].kinds


def test_costs_are_given_once():
    """For each value of the result or of the first input or by a rule of its own."""
    for name, row in OPERATORS.items():
        assert row.per_result is None or row.per_value is None, name
    assert set(PRODUCTS) <= set(OPERATORS)
    assert set(SIMPLE) <= set(OPERATORS)


# --- true ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", STANDARD)
def test_kinds_agree_with_the_descriptions_of_onnx(op: str):
    kinds, description = OPERATORS[op].kinds, schema(op)
    if Kind.UNARY in kinds:
        assert (description.min_input, description.max_input, description.max_output) == (1, 1, 1)
    if Kind.BROADCASTS in kinds:
        assert description.max_input >= 2
    if Kind.COMPARES in kinds:
        assert set(description.outputs[0].types) == {"tensor(bool)"}
    if Kind.REDUCES in kinds:
        assert [entry.name for entry in description.inputs] == ["data", "axes"]
    if kinds & (Kind.NORMALISES_ROWS | Kind.PROBABILITIES):
        assert "axis" in description.attributes


def test_what_is_piecewise_constant_has_no_gradient():
    assert of_kind(Kind.STEPS) & set(GRADIENT) == {op for op, note in NOTES.items() if note == ZERO}


def values(op: str, x: np.ndarray) -> np.ndarray:
    opset = schema(op).since_version
    return run(one_node(op, [x], [False], 1, {}, max(opset, 13)), ["y0"], {"x0": x})["y0"]


@pytest.mark.parametrize("op", sorted(of_kind(Kind.GATE)))
def test_gates_are_bounded(op: str):
    """Far out they are open or closed; they never turn back."""
    y = values(op, np.linspace(-30, 30, 601, dtype=np.float32))

    assert np.abs(y).max() <= 1
    assert (np.diff(y) >= -ROUNDING).all()
    assert y[-1] == pytest.approx(1)


@pytest.mark.parametrize("op", sorted(of_kind(Kind.SELF_GATED)))
def test_self_gated_functions_are_a_gate_times_their_argument(op: str):
    """y = x F(x) with F between 0 and 1."""
    x = np.linspace(-9, 9, 600, dtype=np.float32)  # without 0
    gate = values(op, x) / x

    assert -ROUNDING <= gate.min() <= gate.max() <= 1 + ROUNDING


# --- sets that are narrower than a kind, each for a reason -----------------------------------------------------------

NARROWER: dict[str, tuple[Set[str], Set[str]]] = {
    "attention is normalised by a softmax, no logarithm": (NORMALISERS, of_kind(Kind.PROBABILITIES)),
    "weights in bfloat16 are moved by what folds them": (MOVERS, of_kind(Kind.MOVES)),
    "a uniform tensor stays so if nothing is added": (MOVES, of_kind(Kind.MOVES)),
    "activations that ONNX Runtime fuses": (ACTIVATIONS, of_kind(Kind.UNARY) | {"Clip"}),
    "shapes are computed by few operators, and the others could be large": (ARITHMETIC, set(OPERATORS)),
    "between softmax and products: layout, scale, mask; no selection": (
        TOLERATED,
        of_kind(Kind.MOVES | Kind.BROADCASTS | Kind.PICKS | Kind.QUANTISES | Kind.DEQUANTISES) | {"IsNaN"},
    ),
    "a norm written out moves no token": (NORM_OPERATORS - {"Cast"}, set(OPERATORS) - of_kind(Kind.MOVES)),
}


@pytest.mark.parametrize(("narrow", "wide"), NARROWER.values(), ids=NARROWER)
def test_narrower_sets(narrow: Set[str], wide: Set[str]):
    assert narrow
    assert narrow <= wide
