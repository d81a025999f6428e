"""gradskip+ against a slow twin in torch, float64, that says detach() where the method holds something constant."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import gradskip_onnx
from gradskip_onnx.api import Explainer
from gradskip_onnx.errors import InputError
from gradskip_onnx.methods.gradskip_plus import GradSkipPlusOptions, middle, spread
from gradskip_onnx.types import Array

from .lrp_twin import HEADS, PATCH, SIZE, WIDTH, TinyVit, exported

DEPTH, OPSET = 6, 17
GRID = (SIZE[0] // PATCH, SIZE[1] // PATCH)
CLOSE = 2e-4  # relative, float32 in the model against float64 in the twin
IMAGES = np.random.default_rng(5).normal(size=(2, 3, *SIZE)).astype(np.float32)


@cache
def tiny(special: int = 1, bias: bool = True) -> tuple[TinyVit, Explainer]:
    model = TinyVit(special=special, bias=bias, depth=DEPTH)
    return model, gradskip_onnx.load(exported(model, OPSET).SerializeToString(), threads=1)


def norm(layer: Any, x: Any) -> Any:
    centred = x - x.mean(-1, keepdim=True)
    spread_ = (centred.pow(2).mean(-1, keepdim=True) + layer.eps).sqrt().detach()
    return centred / spread_ * layer.weight + (0 if layer.bias is None else layer.bias)


def depths(model: TinyVit, image: Array, target: int, against: str) -> tuple[list[Array], Array, float]:
    """Relevance of all tokens at every block's input, of the pixels, and the score."""
    net: Any = model.double()
    pixels = torch.tensor(image[None]).double().requires_grad_()
    x = net.embed(pixels).flatten(2).transpose(1, 2)
    x = torch.cat([net.extra, x], dim=1) + net.position
    inputs = []
    for i in range(DEPTH):
        inputs.append(x)
        qkv = net.qkv[i](norm(net.norm1[i], x)).reshape(-1, 3, HEADS, WIDTH // HEADS).permute(1, 2, 0, 3)
        attention = (qkv[0] @ qkv[1].mT / math.sqrt(WIDTH // HEADS)).softmax(-1).detach()
        x = x + net.out[i]((attention @ qkv[2]).transpose(0, 1).reshape(1, -1, WIDTH))
        up = net.up[i](norm(net.norm2[i], x))
        x = x + net.down[i](up * (0.5 * (1 + torch.erf(up / math.sqrt(2)))).detach())
    x = norm(net.norm, x)
    scores = [head(x[:, i]) for i, head in enumerate(net.heads)] if net.special else [net.heads[0](x.mean(1))]
    z = sum(scores)[0] / len(scores)
    rest = torch.cat([z[:target], z[target + 1 :]])
    score = z[target] - torch.logsumexp(rest, 0) if against == "others" else z[target]
    gradients = torch.autograd.grad(score, [*inputs, pixels])
    model.float()
    found = [(t * g)[0].sum(-1).detach().numpy() for t, g in zip(inputs, gradients, strict=False)]
    return found, (pixels * gradients[-1])[0].sum(0).detach().numpy(), float(z[target].detach())


def twin(model: TinyVit, image: Array, target: int, against: str = "others", pixels: bool = True) -> Array:
    """(1 / 3) sum over blocks 2 to 4 of R, between the centres of patches; a sixth of the pixels' in quarters."""
    tokens, of_pixels, _ = depths(model, image, target, against)
    maps = torch.tensor(np.stack([R[model.special :].reshape(GRID) for R in tokens[1:4]]))[None]
    found = nn.functional.interpolate(maps, scale_factor=4, mode="bilinear")[0].mean(0).numpy() / 16
    side = PATCH // 4
    cells = of_pixels.reshape(SIZE[0] // side, side, SIZE[1] // side, side).sum((1, 3))
    return np.asarray(found + pixels * cells / DEPTH)


def same(found: Array, expected: Array) -> None:
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= CLOSE * np.abs(expected).max()


@pytest.mark.parametrize("against", ["others", "nothing"])
@pytest.mark.parametrize("special", [0, 1, 2])
def test_agrees_with_the_slow_twin(special: int, against: str):
    model, explainer = tiny(special)
    for image, target in zip(IMAGES, (3, 0), strict=True):
        (found,) = explainer.explain(image[None], target, method="gradskip+", against=against)
        same(found.relevance.scores, twin(model, image, target, against))


def test_without_pixels():
    model, explainer = tiny()
    (found,) = explainer.explain(IMAGES[:1], 2, method="gradskip+", pixels=False)
    same(found.relevance.scores, twin(model, IMAGES[0], 2, pixels=False))


def test_without_biases_every_depth_adds_up_to_the_logit():
    """All tokens count here; the positional embedding and the class token take their part before the first block."""
    model, explainer = tiny(special=0, bias=False)
    tokens, _, logit = depths(model, IMAGES[0], 1, "nothing")
    assert np.allclose([R.sum() for R in tokens], logit, rtol=1e-9)
    for block in range(1, DEPTH + 1):
        options: dict[str, Any] = {"first": block, "last": block, "pixels": False, "against": "nothing"}
        (found,) = explainer.explain(IMAGES[:1], 1, method="gradskip+", **options)
        assert found.relevance.scores.sum() == pytest.approx(logit, rel=CLOSE)


def test_the_true_gradient_is_another_map_and_does_not_add_up():
    model, explainer = tiny(special=0, bias=False)
    options: dict[str, Any] = {"first": 1, "last": 1, "pixels": False, "against": "nothing", "rules": "gradient"}
    (found,) = explainer.explain(IMAGES[:1], 1, method="gradskip+", **options)
    _, _, logit = depths(model, IMAGES[0], 1, "nothing")
    assert abs(found.relevance.scores.sum() - logit) > 0.01 * abs(logit)


def test_the_order_of_heads_does_not_matter():
    model, explainer = tiny()
    turned = TinyVit(depth=DEPTH)
    turned.load_state_dict(model.state_dict())
    side = WIDTH // HEADS
    order = torch.arange(WIDTH).reshape(HEADS, side).flip(0).flatten()
    with torch.no_grad():
        for qkv, out in zip(turned.qkv, turned.out, strict=True):
            layer: Any = qkv
            for values in (layer.weight, layer.bias):
                values.copy_(torch.cat([part[order] for part in values.chunk(3)]))
            last: Any = out
            last.weight.copy_(last.weight[:, order])
    other = gradskip_onnx.load(exported(turned, OPSET).SerializeToString(), threads=1)
    (expected,), (found,) = (each.explain(IMAGES[:1], 4, method="gradskip+") for each in (explainer, other))
    same(found.relevance.scores, expected.relevance.scores)


def test_a_constant_added_to_all_logits_changes_nothing_but_against_nothing_it_may():
    model, explainer = tiny()
    raised = TinyVit(depth=DEPTH)
    raised.load_state_dict(model.state_dict())
    with torch.no_grad():
        for head in raised.heads:
            layer: Any = head
            layer.weight += torch.linspace(-1, 1, WIDTH)  # the same row for every class
    other = gradskip_onnx.load(exported(raised, OPSET).SerializeToString(), threads=1)
    for against, equal in (("others", True), ("nothing", False)):
        maps = [e.explain(IMAGES[:1], 1, method="gradskip+", against=against)[0] for e in (explainer, other)]
        first, second = (each.relevance.scores for each in maps)
        assert bool(np.abs(first - second).max() <= 1e-3 * np.abs(first).max()) is equal


def test_a_class_that_is_certain_has_a_map():
    """The gradient of the probability vanishes there; that of the log-odds does not."""
    model, _ = tiny()
    certain = TinyVit(depth=DEPTH)
    certain.load_state_dict(model.state_dict())
    with torch.no_grad():
        for head in certain.heads:
            layer: Any = head
            layer.bias[2] += 200
    explainer = gradskip_onnx.load(exported(certain, OPSET).SerializeToString(), threads=1)
    (found,) = explainer.explain(IMAGES[:1], 2, method="gradskip+")
    assert found.target.probability == 1.0
    same(found.relevance.scores, twin(certain, IMAGES[0], 2))


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, (1, 1)), (2, (1, 1)), (3, (1, 2)), (5, (2, 3)), (6, (2, 4)), (12, (3, 8)), (24, (5, 16))],
)
def test_the_middle_of_a_model(count: int, expected: tuple[int, int]):
    numbers: Any = range(1, count + 1)
    found: Any = middle(numbers, GradSkipPlusOptions())
    assert (found[0], found[-1]) == expected


@pytest.mark.parametrize("options", [{"first": 7}, {"first": 4, "last": 3}, {"last": 7}, {"against": "all"}])
def test_options_that_name_no_block_are_refused(options: dict[str, Any]):
    _, explainer = tiny()
    with pytest.raises(InputError, match=r"gradskip\+ option"):
        explainer.explain(IMAGES[:1], method="gradskip+", **options)


@pytest.mark.parametrize("fine", [(12, 16), (24, 24)])
def test_spreading_keeps_the_sum(fine: tuple[int, int]):
    R = np.random.default_rng(0).normal(size=(3, 4))
    assert spread(R, fine).sum() == pytest.approx(R.sum(), abs=1e-5)
