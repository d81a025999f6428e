"""A GELU written out is differentiated as one function: same gradient, nothing inside is read by the backward pass."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from gradskip_onnx.autodiff import GRADIENT, Emit, Rule, backward
from gradskip_onnx.autodiff.rulesets.conservative import CONSERVATIVE
from gradskip_onnx.types import Array, TensorFact

FORMS = {
    "x times, then half": [("Mul", "x", "shifted", "product"), ("Mul", "product", "half", "y")],
    "half of the gate": [("Mul", "half", "shifted", "product"), ("Mul", "x", "product", "y")],
    "half of x": [("Mul", "x", "half", "product"), ("Mul", "product", "shifted", "y")],
    "divided by two": [("Mul", "shifted", "x", "product"), ("Div", "product", "two", "y")],
}
NUMBERS = {"root": math.sqrt(2), "half": 0.5, "one": 1.0, "two": 2.0}


def written_out(form: list[tuple[str, str, str, str]], one: float = 1.0) -> onnx.ModelProto:
    rows = [("Div", "x", "root", "u"), ("Erf", "u", "", "erf"), ("Add", "erf", "one", "shifted"), *form]
    nodes = [helper.make_node(op, [a, b] if b else [a], [y], name=y) for op, a, b, y in rows]
    constants = [
        numpy_helper.from_array(np.array(value, np.float32), name) for name, value in {**NUMBERS, "one": one}.items()
    ]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [7, 9]) for name in ("x", "g", "y")]
    graph = helper.make_graph(nodes, "gelu", info[:2], info[2:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def differentiated(model: onnx.ModelProto, rules: dict[str, Rule], x: Array, g: Array) -> tuple[Array, set[str]]:
    """The gradient at x, and the tensors of the file that the backward pass reads."""
    graph = gs.import_onnx(model)
    names = [*graph.tensors(), "g"]
    emit = Emit(graph, dict.fromkeys(names, TensorFact((7, 9), np.dtype(np.float32))), 17)
    before = len(graph.nodes)
    found = backward(emit, of="y", seed=emit.sym("g"), at=["x"], rules=rules)["x"]
    read = {tensor.name for node in graph.nodes[before:] for tensor in node.inputs}
    graph.outputs = [found.tensor]
    made = gs.export_onnx(graph.cleanup().toposort())
    made.ir_version = 8
    return ort.InferenceSession(made.SerializeToString()).run(None, {"x": x, "g": g})[0], read & {*names}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("held", [False, True])
def test_gradient_of_a_gelu_written_out(form, held):
    rng = np.random.default_rng(0)
    x, g = 3 * rng.standard_normal((2, 7, 9)).astype(np.float32)
    x[0, :3] = 0, 30, -30
    found, read = differentiated(written_out(form), _table(held), x, g)
    cdf = 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    density = np.exp(-(x.astype(np.float64) ** 2) / 2) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(found, g * (cdf + (0 if held else x * density)), atol=2e-6)
    assert read <= {"x", "g"}


def _table(held: bool) -> dict[str, Rule]:
    return {**GRADIENT, **CONSERVATIVE} if held else dict(GRADIENT)


def test_something_else_is_left_to_the_rules_of_its_parts():
    x, g = np.random.default_rng(1).standard_normal((2, 7, 9)).astype(np.float32)
    form = FORMS["x times, then half"]
    found, read = differentiated(written_out(form, one=2.0), dict(GRADIENT), x, g)
    cdf = 0.5 * (2 + np.vectorize(math.erf)(x / math.sqrt(2)))
    density = np.exp(-(x.astype(np.float64) ** 2) / 2) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(found, g * (cdf + x * density), atol=2e-6)
    assert "shifted" in read
