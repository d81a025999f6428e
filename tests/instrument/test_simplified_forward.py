"""Plans that reach the same numbers by less arithmetic: equal to the file's own arithmetic, and really less of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import onnxruntime as ort
import pytest

from gradskip_onnx import api
from gradskip_onnx.graph.read.forward import forward_graph
from gradskip_onnx.graph.rewrite.mix_before_enlarging import mix_before_enlarging
from gradskip_onnx.instrument.build_plan import build_plan
from gradskip_onnx.methods.gradskip.gradskip import gradskip
from gradskip_onnx.methods.gradskip.readings import GradSkipOptions
from gradskip_onnx.methods.gradskip.readings import needs as needs_of
from gradskip_onnx.passes.run_plan import run_plan
from gradskip_onnx.runtime.session import open_session
from gradskip_onnx.types import Architecture, Instrumented, Needs, TensorFact, Trace
from tests.support.models import FLOAT, Vit, Writer, finish, vit

SAME = 1e-5  # float32, the same sums in another order


def gradskip_needs(architecture: Architecture) -> Needs:
    return needs_of(GradSkipOptions(), architecture)


def output_needs(architecture: Architecture) -> Needs:
    every = architecture.every_block
    return Needs(tokens_out=every, tokens_out_gradients=every)


def no_needs(_architecture: Architecture) -> Needs:
    return Needs()


DEEP = Vit(depth=3, size=(40, 32))

VITS: dict[str, Vit] = {
    "class token": DEEP,
    "opset 14": replace(DEEP, opset=14, decomposed_norm=True),
    "opset 20": replace(DEEP, opset=20),
    "registers": replace(DEEP, special=3),
    "class token last": replace(DEEP, special_last=True),
    "average": replace(DEEP, pooled=True),
    "folded heads": replace(DEEP, folded_heads=True),
    "swapped product": replace(DEEP, swapped_product=True),
    "scaled, masked": replace(DEEP, scaled_branch=True, masked=True),
    "post norm": replace(DEEP, post_norm=True),
    "tanh": replace(DEEP, tanh_gelu=True),
    "one image": replace(DEEP, batch=1),
    "two blocks": replace(DEEP, depth=2),
    "one block": replace(DEEP, depth=1, pooled=True),
}


def both(
    model: onnx.ModelProto, needs: Callable[[Architecture], Needs]
) -> tuple[tuple[Instrumented, Trace], tuple[Instrumented, Trace], Any]:
    """A plan as the file has it and a simplified one, each with what it shows of one image."""
    explainer = api.load(model.SerializeToString())
    images = np.random.default_rng(0).standard_normal((1, *explainer.architecture.input_dims)).astype(np.float32)
    found = []
    for simplify_forward in (False, True):
        asked = needs(explainer.architecture)
        plan = build_plan(explainer.model.source, explainer.model.reading, asked, simplify_forward=simplify_forward)
        session = open_session(plan.model, plan.folder, threads=1)
        found.append((plan, run_plan(session, plan, explainer.architecture, images)[0]))
    return found[0], found[1], explainer


def assert_same(one: Trace, other: Trace) -> None:
    assert one.target == other.target
    np.testing.assert_allclose(one.logits, other.logits, atol=SAME)
    for shown, again in ((one.values, other.values), (one.gradients, other.gradients)):
        assert shown.keys() == again.keys()
        for name in shown:
            scale = np.abs(shown[name]).max() or 1.0
            np.testing.assert_allclose(again[name] / scale, shown[name] / scale, atol=SAME, err_msg=name)


@pytest.mark.parametrize("shape", VITS.values(), ids=VITS)
@pytest.mark.parametrize("needs", [gradskip_needs, no_needs, output_needs])
def test_numbers_stay(shape, needs):
    (_, printed), (_, simplify_forward), _ = both(vit(shape), needs)
    assert_same(printed, simplify_forward)


@pytest.mark.parametrize("shape", VITS.values(), ids=VITS)
def test_maps_stay(shape):
    """The map of a pass that shows every block, computed as the file has it, is that of the simplified one."""

    def everything_needed(architecture: Architecture) -> Needs:
        every = architecture.every_block
        return Needs(attention=every, tokens_in=every, tokens_out=every, tokens_out_gradients=every)

    (_, everything), _, explainer = both(vit(shape), everything_needed)
    _, (_, simpler), _ = both(vit(shape), gradskip_needs)
    full, lean = (gradskip(trace, explainer.architecture, GradSkipOptions()) for trace in (everything, simpler))
    np.testing.assert_allclose(lean.scores, full.scores, atol=SAME)
    assert lean.checks["start_block"] == full.checks["start_block"]


def decoder(sizes: tuple[int, ...]) -> onnx.ModelProto:
    """Maps of several sizes enlarged to the first, joined and mixed; the last two nodes make scores of it."""
    w = Writer(np.random.default_rng(0))
    maps = []
    for size in sizes:
        small = w.op("AveragePool", "image", kernel_shape=[8 // size] * 2, strides=[8 // size] * 2)
        wide = w.op("Conv", small, w.weight(6, 3, 1, 1), w.weight(6))
        scales = w.const([1, 1, 8 / size, 8 / size], np.float32)
        maps.append(w.op("Resize", wide, "", scales, mode="linear") if size < 8 else wide)
    mixed = w.op("Relu", w.op("Conv", w.op("Concat", *maps, axis=1), w.weight(6, 6 * len(sizes), 1, 1), w.weight(6)))
    w.op("Conv", mixed, w.weight(4, 6, 1, 1), w.weight(4))
    w.nodes[-1].output[0] = "logits"
    return finish(w, {"image": (FLOAT, ["batch", 3, 8, 8])}, {"logits": (FLOAT, ["batch", 4, 8, 8])}, 17)


def test_channels_are_mixed_before_maps_are_enlarged():
    model = decoder((8, 4, 2))
    graph = forward_graph(model)
    image = np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype(np.float32)
    (before,) = ort.InferenceSession(model.SerializeToString()).run(["logits"], {"image": image})
    shapes = onnx.shape_inference.infer_shapes(model).graph.value_info
    facts = {
        info.name: TensorFact(
            (None, *(dim.dim_value for dim in info.type.tensor_type.shape.dim[1:])), np.dtype(np.float32)
        )
        for info in shapes
    }
    written = mix_before_enlarging(graph, ["logits"], facts)
    made = gs.export_onnx(graph)
    made.ir_version = model.ir_version
    (after,) = ort.InferenceSession(made.SerializeToString()).run(["logits"], {"image": image})
    np.testing.assert_allclose(after, before, atol=SAME)
    mixed = [node for node in made.graph.node if node.op_type == "Conv" and node.input[1].startswith("gradskip/early")]
    assert sorted(written[node.output[0]].dims[2] or 0 for node in mixed) == [2, 4, 8]
    assert not any(node.op_type == "Concat" for node in made.graph.node)


def test_what_is_shown_stays_where_it_is():
    model = decoder((8, 4))
    graph = forward_graph(model)
    joined = next(node.outputs[0].name for node in graph.nodes if node.op == "Concat")
    mix_before_enlarging(graph, ["logits", joined], {})
    assert any(node.op == "Concat" for node in graph.nodes)


def walked(shape: Vit) -> tuple[list[str], Any]:
    explainer = api.load(vit(shape).SerializeToString())
    needs = gradskip_needs(explainer.architecture)
    plan = build_plan(explainer.model.source, explainer.model.reading, needs)
    return list(plan.gradients), explainer.architecture.blocks


def test_only_blocks_walked_through_are_shown():
    """The head of the first reads no patch of its last block, that of the second reads all."""
    shown, blocks = walked(DEEP)
    assert shown == [blocks[1].tokens_out]
    shown, blocks = walked(replace(DEEP, pooled=True))
    assert shown == [blocks[1].tokens_out, blocks[2].tokens_out]
    shown, blocks = walked(replace(DEEP, depth=2))
    assert shown == [blocks[0].tokens_out]


def test_last_block_is_computed_for_the_class_token_alone():
    (printed, _), (simplify_forward, _), explainer = both(vit(DEEP), no_needs)
    inner = explainer.architecture.blocks[-1].branch
    rows = {}
    for plan in (printed, simplify_forward):
        plan.model.graph.output.append(onnx.ValueInfoProto(name=inner))
        session = open_session(plan.model, plan.folder, threads=1)
        image = np.zeros((1, *explainer.architecture.input_dims), np.float32)
        rows[plan is simplify_forward] = session.run([inner], {explainer.architecture.input: image})[inner].shape[1]
    assert rows == {False: 21, True: 1}
