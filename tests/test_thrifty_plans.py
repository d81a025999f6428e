"""Plans that reach the same numbers by less arithmetic: equal to the file's own arithmetic, and really less of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

from gradskip_onnx import api, runtime
from gradskip_onnx.methods import METHODS
from gradskip_onnx.plan import build
from gradskip_onnx.session import open_session
from gradskip_onnx.types import Needs, Plan, Trace

from .models import Vit, vit

SAME = 1e-5  # float32, the same sums in another order
GRADSKIP = METHODS["gradskip"].needs(METHODS["gradskip"].options())
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


def both(model: onnx.ModelProto, needs: Needs) -> tuple[tuple[Plan, Trace], tuple[Plan, Trace], Any]:
    """A plan as the file has it and a thrifty one, each with what it shows of one image."""
    explainer = api.load(model.SerializeToString())
    images = np.random.default_rng(0).standard_normal((1, *explainer.architecture.input_dims)).astype(np.float32)
    found = []
    for thrifty in (False, True):
        plan = build(explainer.source, explainer.reading, needs, thrifty=thrifty)
        session = open_session(plan.model, plan.folder, threads=1)
        found.append((plan, runtime.run(session, plan, explainer.architecture, images)[0]))
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
@pytest.mark.parametrize("needs", [GRADSKIP, Needs(), Needs(tokens_out="all", tokens_out_gradients="all")], ids=str)
def test_numbers_stay(shape, needs):
    (_, printed), (_, thrifty), _ = both(vit(shape), needs)
    assert_same(printed, thrifty)


@pytest.mark.parametrize("shape", VITS.values(), ids=VITS)
def test_maps_stay(shape):
    """The map of a pass that shows every block, computed as the file has it, is that of the thrifty one."""
    row = METHODS["gradskip"]
    needs = Needs(attention="all", tokens_in="all", tokens_out="all", tokens_out_gradients="all")
    (_, everything), _, explainer = both(vit(shape), needs)
    _, (_, thrifty), _ = both(vit(shape), GRADSKIP)
    full, lean = (row.run(trace, explainer.architecture, row.options(), None) for trace in (everything, thrifty))
    np.testing.assert_allclose(lean.scores, full.scores, atol=SAME)
    assert lean.checks["start_block"] == full.checks["start_block"]


def walked(shape: Vit) -> tuple[list[str], Any]:
    explainer = api.load(vit(shape).SerializeToString())
    plan = build(explainer.source, explainer.reading, GRADSKIP)
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
    (printed, _), (thrifty, _), explainer = both(vit(DEEP), Needs())
    inner = explainer.architecture.blocks[-1].branch
    rows = {}
    for plan in (printed, thrifty):
        plan.model.graph.output.append(onnx.ValueInfoProto(name=inner))
        session = open_session(plan.model, plan.folder, threads=1)
        image = np.zeros((1, *explainer.architecture.input_dims), np.float32)
        rows[plan is thrifty] = session.run([inner], {explainer.architecture.input: image})[inner].shape[1]
    assert rows == {False: 21, True: 1}
