"""Attention that is made when a method asks for it: the maps of held attention, and that of one block at a time."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradskip_onnx
from gradskip_onnx.api import Explainer
from gradskip_onnx.demo import demo_model
from gradskip_onnx.instrument import build_plan, chains
from gradskip_onnx.methods import choose_method
from gradskip_onnx.methods.gradskip import gradskip as walk
from gradskip_onnx.passes import made_arrays, run_plan
from gradskip_onnx.types import Array
from tests.support.method_models import fast
from tests.support.models import Vit, vit

FIXTURES = Path(__file__).parent.parent / "fixtures"
MODELS: dict[str, Any] = {
    "vit": demo_model,
    "distilled": lambda: FIXTURES / "deit_distilled.onnx",
    "segformer": lambda: FIXTURES / "segformer.onnx",
    "folded heads": lambda: vit(Vit(depth=3, folded_heads=True)).SerializeToString(),
    "fixed batch": lambda: vit(Vit(depth=3, batch=2)).SerializeToString(),
}
VALUES = ("gradskip", "rollout", "raw-attention", "mutex", "tam")
GRADIENTS = ("chefer1", "chefer2", "legrad")
SAME = 1e-5  # of the largest entry: the same nodes in a session of their own


def on_demand(monkeypatch: pytest.MonkeyPatch, model: str = "vit") -> None:
    """Attention of a small model counts as large, too; that of the smallest has as few entries as its queries."""
    monkeypatch.setattr(chains, "HELD", 0)
    monkeypatch.setattr(chains, "LARGE", 1)
    monkeypatch.setattr(chains, "TIMES_SMALLER", 0.5 if model == "segformer" else 1.01)
    monkeypatch.setattr(walk, "HELD", 0)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tensors that were made, in order."""
    names: list[str] = []

    def counting(maker: Any, output: str, *more: Any) -> Array:
        names.append(output)
        return made_arrays.make(maker, output, *more)

    monkeypatch.setattr(run_plan, "make", counting)
    return names


def opened(model: str) -> Explainer:
    return gradskip_onnx.load(MODELS[model](), cache=False, threads=1)


def scores(explainer: Explainer, method: str, targets: Any = 1, images: int = 1) -> list[Array]:
    shape = (images, *explainer.architecture.input_dims)
    pictures = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    found = explainer.explain(pictures, targets, method=method, **fast(method))
    return [np.asarray(each.relevance.scores) for each in found]


def assert_same(found: list[Array], expected: list[Array]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert np.abs(one - other).max() <= SAME * np.abs(other).max()


@pytest.mark.parametrize("method", [*VALUES, *GRADIENTS])
@pytest.mark.parametrize("model", MODELS)
def test_maps_are_those_of_held_attention(
    model: str, method: str, monkeypatch: pytest.MonkeyPatch, made: list[str]
) -> None:
    held = scores(opened(model), method)
    assert not made

    on_demand(monkeypatch, model)
    monkeypatch.setattr(build_plan, "recompute_large", lambda *_: None)  # it has its own tests
    found = scores(opened(model), method)

    assert made
    assert_same(found, held)


@pytest.mark.parametrize("method", ["gradskip", "chefer2"])
@pytest.mark.parametrize("model", ["vit", "folded heads", "fixed batch"])
def test_several_images_and_several_classes(model: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    images, classes = scores(opened(model), method, images=3), scores(opened(model), method, targets=[0, 2, 1])
    on_demand(monkeypatch)

    assert_same(scores(opened(model), method, images=3), images)
    assert_same(scores(opened(model), method, targets=[0, 2, 1]), classes)


@pytest.mark.parametrize("method", ["gradskip", "rollout", "chefer2", "mutex"])
def test_each_attention_is_made_once(method: str, monkeypatch: pytest.MonkeyPatch, made: list[str]) -> None:
    on_demand(monkeypatch)
    scores(opened("vit"), method)

    assert len(made) == len(set(made))


def test_attention_of_one_block_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attention is gone when the next is made."""
    on_demand(monkeypatch)
    alive: list[int] = []
    held: list[Any] = []

    def watching(maker: Any, output: str, *more: Any) -> Array:
        alive.append(sum(reference() is not None for reference in held))
        array = made_arrays.make(maker, output, *more)
        held.append(weakref.ref(array))
        return array

    monkeypatch.setattr(run_plan, "make", watching)
    for method in ("gradskip", "rollout"):
        scores(opened("vit"), method)

    assert len(alive) > 8
    assert max(alive) == 0


def test_a_pass_outputs_no_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    on_demand(monkeypatch)
    explainer = opened("vit")
    plan, session = explainer.model.open(choose_method("chefer2").request(explainer.architecture, "logit"))

    attentions = {block.attention for block in explainer.architecture.blocks}
    assert plan.large
    assert attentions <= plan.makers.keys()
    assert not (attentions | {plan.gradients[name] for name in attentions}) & session.outputs


def test_kept_plans_make_it_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, made: list[str]) -> None:
    on_demand(monkeypatch)
    monkeypatch.setenv("GRADSKIP_CACHE", str(tmp_path))
    first, second = (scores(gradskip_onnx.load(demo_model(), threads=1), "gradskip") for _ in range(2))

    assert len(made) == 2 * len(set(made))
    assert np.array_equal(first, second)


def test_small_models_hold_their_attention() -> None:
    explainer = opened("vit")
    plan, _ = explainer.model.open(choose_method("gradskip").request(explainer.architecture, "logit"))

    assert not plan.makers
    assert not plan.large
