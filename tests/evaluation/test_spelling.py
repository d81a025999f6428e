"""The spelling check: the model stays the same function in other operators, maps that hang on them are found out."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import gradskip_onnx
from gradskip_onnx import api
from gradskip_onnx.datasets import load
from gradskip_onnx.demo import demo_model
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.evaluation import choose_method, choose_metric, respelled
from gradskip_onnx.evaluation.forward import Forward
from gradskip_onnx.graph.find import attention_input
from gradskip_onnx.images.preprocess import prepare
from gradskip_onnx.types import Array
from tests.support.evaluation_data import PREPROCESS, SIDE
from tests.support.models import Vit, vit

IMAGES = np.random.default_rng(4).standard_normal((2, 3, SIDE, SIDE)).astype(np.float32)
ROUNDING = 1e-5  # of scores near 1, through three blocks
SAME = 1e-4  # of the largest value of a map: float32 through a forward and a backward pass


def scaled_head() -> onnx.ModelProto:
    """A head with all that a Gemm can do to its matrix and its bias."""
    model = vit(Vit(depth=3))
    (gemm,) = [node for node in model.graph.node if node.op_type == "Gemm"]
    gemm.attribute.extend([helper.make_attribute("alpha", 0.5), helper.make_attribute("beta", 3.0)])
    return model


MODELS = {
    "norms as operators": lambda: vit(Vit(depth=3, decomposed_norm=False)),
    "norms in pieces": lambda: vit(Vit(depth=3, decomposed_norm=True)),
    "scaled head": scaled_head,
}


@pytest.mark.parametrize("name", MODELS)
def test_the_model_stays_the_same_function(name: str):
    explainer = api.load(MODELS[name]().SerializeToString(), preprocess=PREPROCESS, threads=1)
    before = Forward(explainer).logits(IMAGES)
    other = respelled.respelled(explainer)

    np.testing.assert_allclose(Forward(other).logits(IMAGES), before, atol=ROUNDING)
    np.testing.assert_array_equal(Forward(explainer).logits(IMAGES), before)  # the first one is left alone
    left = {node.op for node in other.model.reading.graph.nodes}
    assert not left & {"LayerNormalization", "Gemm", "Sqrt", "Div", "Sub"}
    assert {"Pow", "Neg", "Add", "Mul", "MatMul"} <= left


@pytest.fixture(scope="module")
def demo() -> tuple[api.Explainer, Array, list[int]]:
    explainer = gradskip_onnx.load(demo_model(), threads=1)
    images = np.stack([prepare(entry.read(), explainer.preprocess)[0] for entry in load("planted:2").entries])
    return explainer, images, [top[0].index for top in explainer.classify(images)]


def differences(demo: tuple[api.Explainer, Array, list[int]], method: str) -> Array:
    choice: Any = choose_metric("spelling")
    found = choice.row.measure(demo[0], choose_method(method), demo[1], demo[2], "logit", choice.options)
    return np.array([one.numbers["difference"] for one in found])


@pytest.mark.parametrize("method", ["gradskip+", "gradskip", "pe-lrp", "attnlrp", "chefer2", "grad-cam", "rollout"])
def test_maps_stay(demo, method):
    assert differences(demo, method).max() < SAME


def test_maps_that_hang_on_an_operator_are_found_out(demo, monkeypatch):
    """A finder that does not know -mean(x) + x takes the wrong tensor for the one behind the norm."""
    known = attention_input.NORM_OPERATORS - {"Neg"}
    monkeypatch.setattr(attention_input, "NORM_OPERATORS", known)

    assert differences(demo, "grad-cam").max() > 0.05


def test_another_function_is_no_measurement(demo, monkeypatch):
    twice = {("", "Add"): lambda w, n: (w.op("Mul", w.op("Add", *n.inputs), 1.01),)}
    monkeypatch.setattr(respelled, "RESPELLINGS", twice)
    with pytest.raises(UnsupportedModelError, match=r"in other operators, scores up to .* differ by"):
        differences(demo, "rollout")
