"""Several classes of one image: one forward pass, the numbers of passes of their own, and copies where it must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradskip_onnx
from gradskip_onnx.api import Explainer, Explanation
from gradskip_onnx.demo import demo_image, demo_model
from gradskip_onnx.errors import InputError, UnsupportedModelError
from gradskip_onnx.instrument.build_plan import build_plan
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.methods import METHODS
from gradskip_onnx.passes.opened_model import OpenedModel
from gradskip_onnx.runtime.session import Session, open_session
from gradskip_onnx.types import Array, Needs, Plan
from tests.support.method_models import fast
from tests.support.models import Vit, vit
from tests.support.swin import swin

SAME = 1e-5  # of the largest entry: float32, products of another size
FIXTURES = Path(__file__).parent.parent / "fixtures"
REFUSED = {("attention-flow", "segformer"), ("attention-flow", "swin"), ("legrad", "swin")}


def distilled() -> Path:
    return FIXTURES / "deit_distilled.onnx"


MODELS: dict[str, Callable[[], Any]] = {
    "vit": demo_model,
    "distilled deit": distilled,
    "segformer": lambda: FIXTURES / "segformer.onnx",
    "swin": swin,
    "folded heads": lambda: vit(Vit(depth=3, folded_heads=True)).SerializeToString(),
    "channels last": lambda: vit(Vit(depth=3, channels_last=True)).SerializeToString(),
    "mean of the tokens": lambda: vit(Vit(depth=3, pooled=True)).SerializeToString(),
}
SWIN = pytest.param("swin", marks=pytest.mark.torch)
NAMES = [SWIN if name == "swin" else name for name in MODELS]


@cache
def opened(name: str) -> Explainer:
    return gradskip_onnx.load(MODELS[name](), threads=1)


def image(explainer: Explainer, seed: int = 0) -> Array:
    shape = (1, *explainer.architecture.input_dims)
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def targets(explainer: Explainer) -> list[int | None]:
    return [4, 0, None, 2, 1][: explainer.architecture.classes]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images went through the model in each run."""
    counted: list[int] = []
    run = Session.run

    def counting(self: Session, outputs: Any, feeds: Any, *more: Any) -> Any:
        counted.extend(len(array) for array in feeds.values() if array.ndim == 4)
        return run(self, outputs, feeds, *more)

    monkeypatch.setattr(Session, "run", counting)
    return counted


def assert_same(found: list[Explanation], expected: list[Explanation]) -> None:
    assert [each.target for each in found] == [each.target for each in expected]
    for one, other in zip(found, expected, strict=True):
        scores, alone = one.relevance.scores, other.relevance.scores
        assert np.abs(scores - alone).max() <= SAME * np.abs(alone).max()
        assert np.abs(one.map - other.map).max() <= SAME * np.abs(other.map).max()


def one_by_one(explainer: Explainer, picture: Array, wanted: list[Any], **options: Any) -> list[Explanation]:
    return [explainer.explain(picture, target, **options)[0] for target in wanted]


@pytest.mark.parametrize("method", ["gradskip", "gradskip+"])
@pytest.mark.parametrize("model", NAMES)
def test_five_classes_are_five_explanations(model: str, method: str) -> None:
    explainer = opened(model)
    picture, wanted = image(explainer), targets(explainer)
    shared = explainer.explain(picture, wanted, method=method)

    assert_same(shared, one_by_one(explainer, picture, wanted, method=method))
    assert len({each.relevance.scores.tobytes() for each in shared}) >= 4  # the predicted class may be named twice


@pytest.mark.slow
@pytest.mark.parametrize("model", ["vit", SWIN, "segformer"])
@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_shares(model: str, method: str) -> None:
    explainer = opened(model)
    picture, options = image(explainer), fast(method)
    if (method, model) in REFUSED:
        with pytest.raises(UnsupportedModelError):
            explainer.explain(picture, [3, None], method=method, **options)
        return
    shared = explainer.explain(picture, [3, None], method=method, **options)
    assert_same(shared, one_by_one(explainer, picture, [3, None], method=method, **options))


@pytest.mark.parametrize("model", NAMES)
def test_the_image_is_passed_forward_once(model: str, passes: list[int]) -> None:
    """The first time a pass for one class is the witness; from then on there is one pass for all."""
    explainer = gradskip_onnx.load(MODELS[model](), threads=1)
    explainer.explain(image(explainer), targets(explainer), method="gradskip")
    del passes[:]
    again = explainer.explain(image(explainer, 1), targets(explainer), method="gradskip")
    assert passes == [1]
    assert_same(again, one_by_one(explainer, image(explainer, 1), targets(explainer), method="gradskip"))


def test_the_likeliest_classes_take_one_pass(passes: list[int]) -> None:
    explainer = gradskip_onnx.load(demo_model(), threads=1)
    explainer.explain_likeliest(demo_image(), 2)
    del passes[:]
    found = explainer.explain_likeliest(demo_image())
    assert passes == [1]
    assert [each.target for each in found] == list(found[0].top)
    assert_same(found, explainer.explain(demo_image(), [each.target.index for each in found]))
    assert explainer.explain(demo_image(), [3])[0].target.index == 3


def test_without_a_gradient_nothing_has_to_be_proven(passes: list[int]) -> None:
    explainer = gradskip_onnx.load(demo_model(), threads=1)
    del passes[:]  # those of reading the file
    needs = Needs(attention=explainer.architecture.every_block)
    traces, _, _ = explainer._run(image(explainer), [-1, 4, -3], None, PassRequest(needs))
    order = np.argsort(-traces[0].logits)
    assert passes == [1]
    assert [trace.target for trace in traces] == [order[0], 4, order[2]]


def test_a_segmentation_explains_the_classes_that_are_there() -> None:
    explainer = opened("segformer")
    found = explainer.explain_likeliest(image(explainer))
    assert [each.target for each in found] == [each for each in found[0].top if each.probability > 0]
    wanted: list[Any] = [each.target.index for each in found]
    assert_same(found, one_by_one(explainer, image(explainer), wanted))
    region = np.zeros(explainer.architecture.input_dims[1:], bool)
    region[:20, 10:] = True
    shared = explainer.explain(image(explainer), [1, 3, 0], region=region)
    assert_same(shared, one_by_one(explainer, image(explainer), [1, 3, 0], region=region))


def test_a_file_with_a_fixed_batch_takes_a_pass_for_each(passes: list[int]) -> None:
    explainer = gradskip_onnx.load(vit(Vit(depth=3, batch=1)).SerializeToString(), threads=1)
    del passes[:]  # those of reading the file
    found = explainer.explain(image(explainer), targets(explainer), method="gradskip")
    assert passes == [1] * 5
    assert_same(found, one_by_one(explainer, image(explainer), targets(explainer), method="gradskip"))


def test_a_graph_that_gives_other_numbers_is_not_used(monkeypatch: pytest.MonkeyPatch, passes: list[int]) -> None:
    def wrong(self: OpenedModel, request: PassRequest) -> tuple[Plan, Session]:
        plan = build_plan(self.source, self.reading, request.needs, score="probability", rows=True)
        return plan, open_session(plan.model, threads=1)

    monkeypatch.setattr(OpenedModel, "_open_rows", wrong)
    explainer = gradskip_onnx.load(MODELS["folded heads"](), threads=1)
    expected = one_by_one(explainer, image(explainer), targets(explainer), method="gradskip")
    for _ in range(2):
        del passes[:]
        assert_same(explainer.explain(image(explainer), targets(explainer), method="gradskip"), expected)
    assert passes == [5]  # copies of the image; the wrong graph is not tried again


def test_a_graph_that_cannot_is_not_heard_of(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Windows do not broadcast: told that nothing is folded, ONNX Runtime fails, and the graph with rows serves."""
    monkeypatch.setattr("gradskip_onnx.passes.class_sharing._folded", lambda _: False)
    explainer = gradskip_onnx.load(MODELS["folded heads"](), threads=1)
    shared = explainer.explain(image(explainer), targets(explainer), method="gradskip")
    assert_same(shared, one_by_one(explainer, image(explainer), targets(explainer), method="gradskip"))
    assert capfd.readouterr().err == ""


def test_more_classes_than_fit_in_one_pass(passes: list[int]) -> None:
    explainer = gradskip_onnx.load(vit(replace(Vit(depth=3), classes=20)).SerializeToString(), threads=1)
    wanted: list[Any] = list(range(20))
    explainer.explain(image(explainer), wanted[:2], method="gradskip")
    del passes[:]
    shared = explainer.explain(image(explainer), wanted, method="gradskip")
    assert passes == [1, 1, 1]
    assert_same(shared, one_by_one(explainer, image(explainer), wanted, method="gradskip"))


def test_numbers_of_targets_that_make_no_sense() -> None:
    explainer = opened("vit")
    two = np.concatenate([image(explainer), image(explainer, 1)])
    for picture, wanted in ((two, [1, 2, 3]), (image(explainer), [])):
        with pytest.raises(InputError, match="one for all or one for each"):
            explainer.explain(picture, wanted)
    for picture, count in ((two, 5), (image(explainer), 0), (image(explainer), 6)):
        with pytest.raises(InputError, match="1 to 5"):
            explainer.explain_likeliest(picture, count)
