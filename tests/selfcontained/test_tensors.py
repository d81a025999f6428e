"""The file with its gradient graph: standard operators, right numbers, a switch, a description that is read back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import gradskip_onnx
from gradskip_onnx.graph.architecture import read
from gradskip_onnx.graph.read.load import load
from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.instrument.build_plan import build_plan
from gradskip_onnx.metrics.flops import of_plan
from gradskip_onnx.model_file.metadata import KEY, read_metadata
from gradskip_onnx.selfcontained.tensors import show_tensors
from gradskip_onnx.types import Needs
from tests.support.models import Vit, vit

# The same kernels on the same inputs; fusions of the forward pass may differ, hence single-precision rounding.
ROUNDING: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-6}
PREPROCESS = Preprocess(size=(32, 32), crop=1.0, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
LABELS = ("a", "b", "c", "d", "e")


@pytest.fixture(scope="module")
def plain() -> onnx.ModelProto:
    return vit(Vit(depth=3))


@pytest.fixture(scope="module")
def whole(plain: onnx.ModelProto) -> onnx.ModelProto:
    source = load(plain.SerializeToString())
    return show_tensors(source, read(source), preprocess=PREPROCESS, labels=LABELS)


@pytest.fixture(scope="module")
def session(whole: onnx.ModelProto):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(whole.SerializeToString(), options)


def images(count: int = 2) -> Any:
    return np.random.default_rng(0).standard_normal((count, 3, 32, 32)).astype(np.float32)


def run(session: Any, **feeds: Any) -> dict[str, Any]:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"image": images()} | feeds), strict=True))


def all_nodes(graph: onnx.GraphProto):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g)


def test_standard_operators_only(whole: onnx.ModelProto):
    onnx.checker.check_model(whole, full_check=True)

    assert {node.domain for node in all_nodes(whole.graph)} == {""}


def test_outputs_and_inputs(session):
    """Every block shows attention, output and gradient; the first of a stage also its input."""
    outputs = run(session)
    expected = {"logits", "gradskip/target", "gradskip/block00/input"}
    expected |= {f"gradskip/block{i:02d}/{word}" for i in range(3) for word in ("attention", "output", "gradient")}

    assert set(outputs) == expected
    assert {entry.name for entry in session.get_overridable_initializers()} == {"target", "explain"}
    assert all(
        outputs[f"gradskip/block0{i}/gradient"].shape == outputs[f"gradskip/block0{i}/output"].shape for i in range(3)
    )


def test_logits_equal_the_plain_file(plain, session):
    expected = onnxruntime.InferenceSession(plain.SerializeToString()).run(["logits"], {"image": images()})[0]

    np.testing.assert_allclose(run(session)["logits"], expected, **ROUNDING)


def test_target_is_an_input_with_a_default(session):
    """Left out or negative it is the predicted class; else the class given, one for each image."""
    outputs = run(session)
    chosen = run(session, target=np.array([4, -1], np.int64))

    np.testing.assert_array_equal(outputs["gradskip/target"], outputs["logits"].argmax(axis=1))
    assert chosen["gradskip/target"].tolist() == [4, int(outputs["logits"][1].argmax())]
    np.testing.assert_array_equal(chosen["gradskip/block01/gradient"][1], outputs["gradskip/block01/gradient"][1])
    assert not np.allclose(chosen["gradskip/block01/gradient"][0], outputs["gradskip/block01/gradient"][0])


def test_one_image_can_have_several_targets(session):
    """By number or by place; values are shown once, gradients for each."""
    feeds = {"image": images()[:1], "target": np.array([4, -2, -1], np.int64)}
    names = ["logits", "gradskip/target", "gradskip/block01/gradient", "gradskip/block01/output"]
    logits, target, gradients, tokens = session.run(names, feeds)

    assert target.tolist() == [4, np.argsort(logits[0])[-2], logits[0].argmax()]
    assert len(gradients) == 3
    assert len(tokens) == 1
    for wanted, gradient in zip(target, gradients, strict=True):
        (alone,) = session.run(names[2:3], feeds | {"target": np.array([wanted], np.int64)})
        np.testing.assert_allclose(gradient, alone[0], **ROUNDING)


def test_gradients_by_finite_differences(plain, session):
    """The gradient at the first block output predicts what the rest of the model does with a small push."""
    source = load(plain.SerializeToString())
    block = read(source).architecture.blocks[0]
    rest = onnx.utils.Extractor(onnx.shape_inference.infer_shapes(plain)).extract_model([block.tokens_out], ["logits"])
    tail = onnxruntime.InferenceSession(rest.SerializeToString())
    outputs = run(session, target=np.array([2, 2], np.int64))
    tokens, gradient = outputs["gradskip/block00/output"], outputs["gradskip/block00/gradient"]
    push = np.random.default_rng(1).standard_normal(tokens.shape).astype(np.float32)
    step = 1e-2  # float32: smaller steps drown in rounding, larger ones in curvature
    up, down = (tail.run(None, {block.tokens_out: tokens + sign * step * push})[0][:, 2] for sign in (1, -1))

    np.testing.assert_allclose((up - down) / (2 * step), (gradient * push).sum(axis=(1, 2)), rtol=2e-3, atol=1e-4)


def test_switch_leaves_the_backward_pass_out(session):
    """explain=false: the same logits, and gradients of no image."""
    outputs = run(session, explain=np.array(False))

    np.testing.assert_array_equal(outputs["logits"], run(session)["logits"])
    assert all(value.shape[0] == 0 for name, value in outputs.items() if name.endswith(("gradient", "gradskip/target")))


def test_weights_are_stored_once(plain, whole):
    """The backward pass refers to the weights of the forward pass."""
    extra = whole.ByteSize() - plain.ByteSize()
    weights = sum(len(tensor.raw_data) for tensor in plain.graph.initializer)
    inner = [t for node in whole.graph.node for a in node.attribute if a.HasField("g") for t in a.g.initializer]

    assert sum(len(tensor.raw_data) for tensor in whole.graph.initializer) < weights * 1.2
    assert not inner
    assert extra < 200_000


def test_description_is_read_back(whole):
    source = load(whole.SerializeToString())
    told = read_metadata(source)
    document = json.loads({p.key: p.value for p in whole.metadata_props}[KEY])

    assert told.preprocess is not None
    assert told.preprocess.mean == PREPROCESS.mean
    assert told.labels == LABELS
    assert told.forward_outputs == ("logits",)
    assert document["format"] == 1
    assert document["anatomy"]["blocks"][2]["outputs"]["gradient"] == "gradskip/block02/gradient"
    assert document["anatomy"]["blocks"][1]["outputs"]["input"] == "gradskip/block00/output"


def test_a_file_with_gradients_is_explained_like_the_plain_one(plain, whole):
    one, other = (gradskip_onnx.load(m.SerializeToString()).explain(images()) for m in (plain, whole))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a.map, b.map, rtol=1e-4, atol=1e-7)


BROKEN = {
    "no json": "{",
    "another format": '{"format": 99}',
    "no object": "[1]",
    "bad preprocessing": '{"format": 1, "preprocess": {"std": [0, 0, 0]}}',
    "bad labels": '{"format": 1, "labels": 7}',
}


def test_a_file_with_gradients_takes_no_more_products(plain, whole):
    """Its own gradients read the statistics of norms; a pass without them still skips rows that nobody reads."""
    costs = []
    for model in (plain, whole):
        source = load(model.SerializeToString())
        reading = read(source)
        needs = Needs(tokens_in_gradients=(0,))
        costs.append(of_plan(build_plan(source, reading, needs), reading.architecture).total)
        unpruned = build_plan(source, reading, needs, simplify_forward=False)
        assert costs[-1] < of_plan(unpruned, reading.architecture).total

    assert costs[0] == costs[1]


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_broken_description_is_a_warning(plain, text: str):
    model = onnx.ModelProto()
    model.CopyFrom(plain)
    onnx.helper.set_model_props(model, {KEY: text})

    assert "ignored" in read_metadata(load(model.SerializeToString())).warnings[0]
