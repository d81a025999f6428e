"""Sequences without some of their tokens: the shortened model against torch on the sequence that is really shorter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

pytest.importorskip("torch")

import torch
from gradskip_onnx.exporters.quiet import quiet

import gradskip_onnx
from gradskip_onnx.api import Explainer
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.shorten.shorten import Short
from gradskip_onnx.graph.shorten.shorten_proof import proven_short, run_short
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.runtime.session import Session
from gradskip_onnx.types import Array, Needs, Trace
from tests.support import models
from tests.support.torch_vits import KINDS, SIZE, Pair, agree, pair

pytestmark = pytest.mark.torch

FIXTURES = Path(__file__).parent.parent / "fixtures"


def entered(explainer: Explainer, image: Array) -> Trace:
    """A pass that shows what enters the first block."""
    traces, _, _ = explainer._run(image[None], [None], None, PassRequest(Needs(tokens_in=(0,))))
    return traces[0]


def shortened(explainer: Explainer, image: Array) -> tuple[Short, Session, Array]:
    trace = entered(explainer, image)
    short, session = explainer.model.shorten(trace)
    return short, session, trace.values[short.entrance.tokens_in]


def subsets(count: int) -> list[Array]:
    """Masks of every length from one patch to all, each at random."""
    rng = np.random.default_rng(0)
    return [np.isin(np.arange(count), rng.permutation(count)[:kept]) for kept in (1, 2, count // 2, count - 1, count)]


def compare(model: Pair, explainer: Explainer) -> None:
    short, session, tokens = shortened(explainer, model.image)
    for keep in subsets(model.patches):
        rows = short.rows(keep)
        assert len(rows) == model.special + keep.sum()
        agree(run_short(session, short, tokens[rows][None]), model.without_tokens(keep[None]), within=1e-5)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_fewer_tokens(name):
    compare(pair(name), pair(name).explainer)


def torchscript(module: torch.nn.Module, path: Path) -> None:
    torch.onnx.export(
        module, (torch.zeros(2, 3, *SIZE),), str(path), opset_version=17, dynamo=False,
        input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}},
    )  # fmt: skip


def fixed_batch(module: torch.nn.Module, path: Path) -> None:
    torch.onnx.export(module, (torch.zeros(1, 3, *SIZE),), str(path), opset_version=14, dynamo=False)


def dynamo(module: torch.nn.Module, path: Path) -> None:
    program = torch.onnx.export(
        module, (torch.zeros(2, 3, *SIZE),), opset_version=18, dynamo=True, verbose=False,
        dynamic_shapes=({0: torch.export.Dim("batch")},),
    )  # fmt: skip
    assert program is not None
    program.save(str(path))


@pytest.mark.parametrize("name", ["class token", "mean"])
@pytest.mark.parametrize("write", [torchscript, fixed_batch, dynamo])
def test_fewer_tokens_in_files_of_others(name, write, tmp_path):
    """As exporters leave them: lengths in constants, in shape arithmetic, in fused attention."""
    model = pair(name)
    try:
        with quiet():
            write(model.module.float(), tmp_path / "m.onnx")
    finally:
        model.module.double()

    compare(model, gradskip_onnx.load(tmp_path / "m.onnx", threads=1))


def test_sequences_of_one_length_share_a_batch():
    model = pair("distilled")
    short, session, tokens = shortened(model.explainer, model.image)
    keep = np.stack([np.roll(np.arange(model.patches) < 6, 3 * i) for i in range(4)])
    together = run_short(session, short, np.stack([tokens[short.rows(row)] for row in keep]))

    agree(together, model.without_tokens(keep), within=1e-5)


def test_the_sequence_is_really_shorter():
    """Nothing in the model has the size it had: attention over 3 tokens is 3 x 3."""
    model = pair("class token")
    short, _, tokens = shortened(model.explainer, model.image)
    proto = proven(model)
    softmax = next(node.output[0] for node in proto.graph.node if node.op_type == "Softmax")
    proto.graph.output.append(onnx.ValueInfoProto(name=softmax))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    keep = np.arange(model.patches) < 2
    (attention,) = session.run([softmax], {short.input: tokens[short.rows(keep)][None]})

    assert attention.shape == (1, 3, 3, 3)


def proven(model: Pair) -> onnx.ModelProto:
    """The shortened model itself; the explainer lets go of it when its session is open."""
    explainer = model.explainer
    return proven_short(explainer.model.source, explainer.model.reading, entered(explainer, model.image)).model


def refusal(model: onnx.ModelProto | Path) -> str:
    explainer = gradskip_onnx.load(model if isinstance(model, Path) else model.SerializeToString(), threads=1)
    image = np.random.default_rng(0).standard_normal(explainer.architecture.input_dims).astype(np.float32)
    trace = entered(explainer, image)
    with pytest.raises(UnsupportedModelError, match="tokens cannot be left out") as refused:
        explainer.model.shorten(trace)
    assert refused.value.code == "fixed-sequence"
    with pytest.raises(UnsupportedModelError) as again:  # asked once, refused for good
        explainer.model.shorten(trace)
    assert again.value is refused.value
    return str(refused.value)


def test_reduced_attention_is_refused():
    assert "keys that stand for 8 x 8 tokens" in refusal(FIXTURES / "segformer.onnx")


def test_a_constant_for_each_pair_of_tokens_is_refused():
    """A bias on the scores belongs to places; which rows of it would stay is not asked of the file."""
    refusal(models.vit(models.Vit(masked=True)))


def test_a_length_hidden_in_a_factor_is_refused():
    """A mean written as a sum and 1/N is right at full length only; the proof sees it."""
    whole = models.vit(models.Vit(special=0))
    (mean,) = [node for node in whole.graph.node if node.op_type == "ReduceMean" and node.output[0] != "logits"][-1:]
    for node in whole.graph.node:
        if node is mean:
            node.op_type = "ReduceSum"
            output = node.output[0]
            del node.attribute[:]
            node.attribute.append(onnx.helper.make_attribute("keepdims", 0))
            node.input.append("axis")
            node.output[0] = "total"
    at = list(whole.graph.node).index(mean)
    whole.graph.node.insert(at + 1, onnx.helper.make_node("Mul", ["total", "share"], [output]))
    whole.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1], np.int64), "axis"))
    whole.graph.initializer.append(onnx.numpy_helper.from_array(np.array(1 / 16, np.float32), "share"))

    assert "fewer tokens give what the others unseen give" in refusal(whole)


@pytest.mark.parametrize(
    "variation",
    [
        {"folded_heads": True},
        {"swapped_product": True},
        {"special": 3},
        {"special": 2, "special_last": True},
        {"decomposed_norm": True, "opset": 13},
        {"scaled_branch": True},
        {"post_norm": True},
        {"batch": 1},
        {"channels_last": True},
    ],
)
def test_variations_of_files(variation):
    """All tokens give the model's own scores, and a patch left out changes them."""
    shape = replace(models.Vit(), **variation)
    explainer = gradskip_onnx.load(models.vit(shape).SerializeToString(), threads=1)
    image = np.random.default_rng(0).standard_normal((3, 32, 32)).astype(np.float32)
    short, session, tokens = shortened(explainer, image)
    everything = np.ones(16, bool)
    found = run_short(session, short, tokens[short.rows(everything)][None])[0]
    fewer = run_short(session, short, tokens[short.rows(everything & (np.arange(16) != 5))][None])[0]

    assert np.abs(found - entered(explainer, image).logits).max() < 1e-5
    assert np.abs(found - fewer).max() > 1e-4
