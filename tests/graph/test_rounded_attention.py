"""An attention that a quantised file rounds on its way: judged by its own grid, its faults caught with a remedy."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import gradskip_onnx
from gradskip_onnx.errors import UnsupportedModelError
from tests.support.models import Vit, vit

LARGEST = 0.5  # on the grid of each attention, about what the tiny model gives
CLAIM, SATURATED = "attention reaches the values unchanged", "few entries of the attention saturate"


def rounded_attention(largest: float = LARGEST, factor: float = 1.0) -> onnx.ModelProto:
    """A vision transformer whose attention is multiplied by `factor` and rounded to 8 bits on its way to the values."""
    model = vit(Vit())
    for name, value in {"scale": np.float32(largest / 255), "zero": np.uint8(0), "factor": np.float32(factor)}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        nodes.append(node)
        if node.op_type == "Softmax":
            whole, node.output[0] = node.output[0], f"{node.output[0]}_exact"
            chain = [
                ("Mul", [node.output[0], "factor"], f"{whole}_scaled"),
                ("QuantizeLinear", [f"{whole}_scaled", "scale", "zero"], f"{whole}_rounded"),
                ("DequantizeLinear", [f"{whole}_rounded", "scale", "zero"], whole),
            ]
            nodes += [onnx.helper.make_node(op, given, [out], name=out) for op, given, out in chain]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


@pytest.mark.parametrize("largest", [LARGEST, 1.0, 8.0])
def test_a_rounded_attention_is_judged_by_the_steps_of_its_own_grid(largest: float):
    """The probe reaches a small part of a wide grid, whose steps are large against it."""
    proofs = gradskip_onnx.inspect(rounded_attention(largest).SerializeToString()).proofs
    steps = [proof.measured for proof in proofs if proof.claim == CLAIM]

    assert len(steps) == Vit().depth
    assert all(0.3 < step <= 0.5001 for step in steps)


def test_saturation_is_counted():
    proofs = gradskip_onnx.inspect(rounded_attention(0.4).SerializeToString()).proofs
    shares = [proof.measured for proof in proofs if proof.claim == SATURATED]

    assert 0 < max(shares) < 0.05


@pytest.mark.parametrize(
    ("largest", "factor", "claim", "remedy"),
    [
        (LARGEST, 0.97, CLAIM, "take the one from before"),
        (1.0, 1.02, CLAIM, "take the one from before"),
        (0.03, 1.0, SATURATED, "calibration images"),
    ],
)
def test_faults_of_a_rounded_attention_are_caught(largest: float, factor: float, claim: str, remedy: str):
    with pytest.raises(UnsupportedModelError, match=claim) as refusal:
        gradskip_onnx.inspect(rounded_attention(largest, factor).SerializeToString())
    assert refusal.value.code == "proof-failed"
    assert remedy in str(refusal.value)
