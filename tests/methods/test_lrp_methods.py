"""The LRP methods against slow twins that carry relevance itself, on models of all kinds, and what they cost."""

from __future__ import annotations

from importlib.resources import files
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("torch")

import torch

from gradskip_onnx.autodiff.rulesets.choice import Rules
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.evaluation.cost import gflops
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.methods import choose_method
from gradskip_onnx.types import Array, Needs

from .lrp_cases import FORMS, GRID, IMAGES, TARGETS, Case, case, load, patches_of, same
from .lrp_rules import RECIPES, STABILISED
from .tiny_vit import COUNT, HEADS, PATCH, WIDTH, TinyVit

pytestmark = pytest.mark.torch

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ah+ln": ("ah+ln", {}),
    "ah+ln, mean and gates held": ("ah+ln", {"mean": True, "gates": True}),
    "attnlrp": ("attnlrp", {"variant": "full"}),
    "attnlrp, gamma": ("attnlrp", {"variant": "full", "gamma_linear": 0.3, "gamma_conv": 2.0}),
    "attnlrp-vit": ("attnlrp", {}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("recipe", VARIANTS)
def test_relevance_at_tokens_and_pixels_agrees_with_the_twin(recipe: str, form: str) -> None:
    method, options = VARIANTS[recipe]
    found = case(form).twin(RECIPES[recipe], start="logit")
    special = FORMS[form][0]
    same(case(form).maps(method, read="tokens", **options), [patches_of(one.tokens, special) for one in found])
    same(case(form).maps(method, read="pixels", **options), [one.pixels.sum(axis=0) for one in found])


@pytest.mark.parametrize("form", FORMS)
def test_pe_lrp_agrees_with_the_twin(form: str) -> None:
    found, special = case(form).twin(RECIPES["pe-lrp"], start="one"), FORMS[form][0]
    position = [patches_of(one.position, special) for one in found]
    spread = [np.kron(one, np.ones((PATCH, PATCH))) / PATCH**2 for one in position]
    pixels = [one.pixels.sum(axis=0) for one in found]
    both = [np.maximum(a + b, 0) for a, b in zip(pixels, spread, strict=True)]
    same(case(form).maps("pe-lrp"), both)
    same(case(form).maps("pe-lrp", part="image"), [np.maximum(one, 0) for one in pixels])
    same(case(form).maps("pe-lrp", part="position"), [np.maximum(one, 0) for one in spread])
    for part, relevance in {
        "both": [one.tokens for one in found],
        "position": [one.position for one in found],
        "image": [one.tokens - one.position for one in found],
    }.items():
        lengths = [np.linalg.norm(one[special:], axis=1).reshape(GRID) for one in relevance]
        same(case(form).maps("pe-lrp", read="tokens", part=part), lengths)


def attention_gradients(model: TinyVit, image: Array, target: int) -> list[Array]:
    """d y_c / d A of each block in float64, by torch: a zero is added to each attention."""
    twin = TinyVit(model.special)
    twin.load_state_dict(model.state_dict())
    twin.double()
    count = model.special + COUNT
    shifts = [torch.zeros(1, HEADS, count, count, dtype=torch.float64, requires_grad=True) for _ in range(model.depth)]

    def attend(i: int, x: Any) -> Any:
        q, k, v = twin.qkv[i](x).reshape(-1, count, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        attention = (q @ k.transpose(-2, -1) * (WIDTH // HEADS) ** -0.5).softmax(-1) + shifts[i]
        return twin.out[i]((attention @ v).transpose(1, 2).reshape(-1, count, WIDTH))

    twin.attend = attend  # type: ignore[method-assign]
    score = twin(torch.tensor(image[None]).double())[0, target]
    return [g[0].numpy() for g in torch.autograd.grad(score, shifts)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("start", [1, 2])
def test_chefer1_agrees_with_the_twin(form: str, start: int) -> None:
    """J = prod (I + mean_h relu(G * R_A)), last block first; its mean row over the tokens that the head reads."""
    special, twins = FORMS[form][0], case(form).twin(RECIPES["chefer1"], start="one")
    expected = []
    for image, target, found in zip(IMAGES, TARGETS, twins, strict=True):
        J = np.eye(special + COUNT)
        G = attention_gradients(case(form).model, image, target)
        for i in range(start - 1, len(G)):
            J = (np.eye(len(J)) + np.maximum(G[i] * found.attention[i], 0).mean(axis=0)) @ J
        rows = J[:special] if special else J
        expected.append(rows.mean(axis=0)[special:].reshape(GRID))
    same(case(form).maps("chefer1", start=start), expected)


@pytest.mark.parametrize("form", FORMS)
def test_relevance_by_the_rules_of_chefer1_agrees_with_the_twin(form: str) -> None:
    """At the tokens that enter the first block, which the map itself does not show."""
    explainer = case(form).explainer
    tokens = explainer.architecture.blocks[0].tokens_in
    request = PassRequest(Needs(tokens_in_gradients=(0,)), rules=Rules("chefer1"))
    traces = explainer._run(IMAGES, TARGETS, None, request)[0]
    expected = [found.tokens for found in case(form).twin(RECIPES["chefer1"], start="one")]
    same([trace.gradients[tokens] for trace in traces], expected, 2e-4)  # the twin in float32 is 1.4e-4 off


@pytest.mark.parametrize("recipe", STABILISED)
def test_published_stabilisers_change_little(recipe: str) -> None:
    """The gradient form is the limit of epsilon to 0; with their epsilons the twins stay near it."""
    for form in FORMS:
        pairs = zip(*(case(form).twin(table[recipe], start="logit") for table in (RECIPES, STABILISED)), strict=True)
        for plain, stabilised in pairs:
            assert np.abs(plain.pixels - stabilised.pixels).max() <= 1e-3 * np.ptp(plain.pixels)


# --- what holds for every model -------------------------------------------------------------------------------------

FIXTURES = Path(__file__).parent.parent / "fixtures"
SHIPPED = {
    "vit": files("gradskip_onnx.demo") / "vit.onnx",
    "distilled": FIXTURES / "deit_distilled.onnx",
    "segformer": FIXTURES / "segformer.onnx",
}
RUNS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ah+ln", {}),
    ("attnlrp", {}),
    ("attnlrp", {"variant": "full"}),
    ("chefer1", {}),
    ("pe-lrp", {}),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_models_are_explained(name: str) -> None:
    """Maps are finite, differ between classes, and say where something had to stand in."""
    explainer = load(str(SHIPPED[name]))
    picture = str(files("gradskip_onnx.demo") / "image.png")
    classes = [candidate.index for candidate in explainer.classify(picture)][:2]
    for method, options in RUNS:
        found = [explainer.explain(picture, target, method=method, **options).relevance for target in classes]
        maps = [one.scores for one in found]
        assert all(np.isfinite(one).all() and np.ptp(one) > 0 for one in maps), (method, options)
        assert not np.allclose(maps[0], maps[1], rtol=1e-3, atol=0), (method, options)
        stands_in = name == "segformer" and method in ("ah+ln", "pe-lrp")
        assert any("no positional embedding" in note for note in found[0].notes) == stands_in, (method, options)


@pytest.mark.parametrize(("method", "options"), RUNS)
def test_a_blank_image_has_a_finite_map(method: str, options: dict[str, Any]) -> None:
    """Denominators are 0 where nothing is there to share."""
    (found,) = case("class token").explainer.explain(np.zeros_like(IMAGES[:1]), 3, method=method, **options)
    assert np.isfinite(found.relevance.scores).all()
    if method == "attnlrp":
        assert not found.relevance.scores.any()  # pixels that are 0 have no relevance


def test_a_position_that_is_not_there_cannot_be_shown() -> None:
    explainer = load(str(SHIPPED["segformer"]))
    with pytest.raises(UnsupportedModelError, match="part=image"):
        explainer.explain(str(files("gradskip_onnx.demo") / "image.png"), method="pe-lrp", part="position")


def without_biases() -> Case:
    """No bias, no class token: nothing but the patches can have relevance."""
    return Case(TinyVit(0, bias=False), 17, False)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("ah+ln", {"gates": True}),
        ("attnlrp", {"variant": "vit", "read": "tokens", "gamma_linear": 0.0}),
        ("attnlrp", {"variant": "vit", "read": "tokens", "gamma_linear": 0.5}),
    ],
)
def test_relevance_adds_up_to_the_score(method: str, options: dict[str, Any]) -> None:
    found = without_biases().explainer.explain(IMAGES, list(TARGETS), method=method, **options)
    for one in found:
        assert one.relevance.scores.sum() == pytest.approx(one.target.logit, rel=1e-4)


def test_cost() -> None:
    """Passes as published; FLOPs of the graphs that run are those the rules ask for."""
    explainer = load(str(SHIPPED["vit"]))
    wanted = [
        choose_method("ah+ln"),
        choose_method("attnlrp", read="tokens"),
        choose_method("attnlrp", variant="full", read="tokens"),
        choose_method("pe-lrp", read="tokens"),
        choose_method("chefer1"),
        choose_method("chefer2"),
    ]
    found = gflops(explainer, wanted, "logit")
    held, gamma, full, position, relevance, attention = (round(1e9 * one["giga"]) for one in found)

    assert [(one.cost.forwards, one.cost.backwards) for one in wanted] == [(1, 1)] * 4 + [(1, 2), (1, 1)]
    weights = onnx.load(str(SHIPPED["vit"])).graph.initializer
    mlps = [2 * prod(w.dims) for w in weights if sorted(w.dims) == [96, 144]]  # forward, of a token
    layers = 145 * sum(mlps[:-2]) + sum(mlps[-2:])  # in the last block the class token alone is read
    head = sum(2 * prod(w.dims) for w in weights if list(w.dims) == [8, 96])
    assert gamma - held == 2 * (layers + head)  # |x| |W| forward, |W| back
    assert position == gamma
    n, d = 145, 96  # back through queries and keys: their weights, and the products for attention, Q and K
    assert full - held == 2 * (5 * (n * 2 * d * d + 3 * n * n * d) + n * 2 * d * d + 3 * n * d)
    assert relevance - attention > attention  # layers twice forward and twice back
