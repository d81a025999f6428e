"""A quantised file is explained with its own integer kernels: the logits of static files are the same bit by bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from PIL import Image

import gradskip_onnx
from gradskip_onnx.demo import demo_image, demo_model
from gradskip_onnx.images.preprocess import prepare
from gradskip_onnx.instrument.build_plan import build_plan
from gradskip_onnx.methods.choice import choose_method
from gradskip_onnx.passes.run_plan import run_plan
from gradskip_onnx.types import Array
from tests.support.photographs import picture

KINDS = ("dynamic", "QDQ", "QOperator", "QOperator of int8")
FLIPPED = (
    0.02  # of the largest logit: operators of real numbers are fused otherwise, and their last digit decides a step
)
# The kernels that ONNX Runtime makes of the products of a file, and those it falls back to.
INTEGER = {"dynamic": ("DynamicQuantizeMatMul", "MatMulInteger"), "QDQ": ("QLinearMatMul", "QGemm")}
INTEGER |= dict.fromkeys(("QOperator", "QOperator of int8"), INTEGER["QDQ"])


def images(count: int) -> Array:
    how = gradskip_onnx.load(demo_model(), cache=False).preprocess
    with Image.open(demo_image()) as first:
        chosen = [first.convert("RGB"), *(picture(96, 96, seed) for seed in range(1, count))]
    return np.stack([prepare(image, how)[0] for image in chosen])


class Images(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, name: str) -> None:
        self.name = name
        self.arrays: Iterator[Array] = iter(images(8))

    def get_next(self) -> dict[str, Array] | None:
        array = next(self.arrays, None)
        return None if array is None else {self.name: array[None]}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("quantised")
    found = {kind: folder / f"{kind}.onnx" for kind in KINDS}
    weights: dict[str, Any] = {"weight_type": QuantType.QInt8, "reduce_range": True}
    quantize_dynamic(demo_model(), found["dynamic"], **weights)
    name = onnx.load(demo_model(), load_external_data=False).graph.input[0].name
    for kind in ("QDQ", "QOperator", "QOperator of int8"):
        weights["activation_type"] = QuantType.QInt8 if kind.endswith("int8") else QuantType.QUInt8
        form = QuantFormat[kind.split()[0]]
        quantize_static(demo_model(), found[kind], Images(name), quant_format=form, **weights)
    return found


@pytest.mark.parametrize("method", ["gradskip+", "gradskip"])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_the_file(kind: str, method: str, files: dict[str, Path]):
    explainer = gradskip_onnx.load(files[kind], "cpu", cache=False)
    own = ort.InferenceSession(str(files[kind]), providers=["CPUExecutionProvider"])
    plan, session = explainer.model.open(choose_method(method).request(explainer.architecture, "logit"))
    batch = images(8)[2:6]

    for image in batch:
        (trace,) = run_plan(session, plan, explainer.architecture, image[None])
        (expected,) = own.run([explainer.architecture.logits], {own.get_inputs()[0].name: image[None]})
        if kind == "dynamic":
            assert np.abs(trace.logits - expected[0]).max() < FLIPPED * np.abs(expected).max()
        else:
            np.testing.assert_array_equal(trace.logits, expected[0])


@pytest.mark.parametrize("kind", KINDS)
def test_the_graph_that_runs_has_the_kernels_of_the_file(kind: str, files: dict[str, Path], tmp_path: Path):
    explainer = gradskip_onnx.load(files[kind], "cpu", cache=False)
    model = explainer.model
    request = choose_method("gradskip+").request(explainer.architecture, "logit")
    plan = build_plan(model.source, model.reading, request.needs, score=request.score, rules=request.rules)
    path = files[kind].with_name(f"{kind}-plan.onnx")
    onnx.save(plan.model, path)

    own, ours = (operators(file, tmp_path / f"{kind}-{number}.onnx") for number, file in enumerate((files[kind], path)))

    def products(found: Counter[str]) -> int:
        return sum(found[op] for op in INTEGER[kind])

    assert products(own) > 20
    assert products(ours) == products(own)
    assert {op: count for op, count in ours.items() if op.startswith("QLinear")} == {
        op: count for op, count in own.items() if op.startswith("QLinear")
    }


def operators(path: Path, optimised: Path) -> Counter[str]:
    """The operators of a file as ONNX Runtime runs it."""
    options = ort.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")  # as in our sessions
    options.optimized_model_filepath, options.log_severity_level = str(optimised), 3
    ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(optimised, load_external_data=False).graph.node)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_scales_that_cancel_are_not_computed(kind: str, files: dict[str, Path]):
    """Between two roundings the gradient is that of real numbers: not divided by a scale and multiplied by it again."""
    explainer = gradskip_onnx.load(files[kind], "cpu", cache=False)
    model = explainer.model
    request = choose_method("gradskip+").request(explainer.architecture, "logit")
    plan = build_plan(model.source, model.reading, request.needs, score=request.score, rules=request.rules).model
    scales = {
        tuple(node.input[1:2]) for node in plan.graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")
    }
    backward = [node for node in plan.graph.node if node.name.startswith("gradskip/") and "/plain/" not in node.name]

    assert len(scales) > 20
    assert [node.name for node in backward if node.op_type == "Div" and tuple(node.input[1:2]) in scales] == []
    assert sum(node.op_type in ("Mul", "Div") for node in backward) < 120
