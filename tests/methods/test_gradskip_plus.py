"""gradskip+ against a slow twin in torch, float64, that says detach() where the method holds something constant.

Below the tokens the twin carries relevance itself, by the gamma rule of the twins of LRP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import gradskip_onnx
from gradskip_onnx.api import Explainer
from gradskip_onnx.errors import InputError
from gradskip_onnx.methods.gradskip.gradskip_plus import GradSkipPlusOptions, density, middle_blocks, spread
from gradskip_onnx.types import Array, Grid

from .lrp_rules import gamma
from .lrp_twin import patches, unpatched
from .tiny_vit import HEADS, PATCH, SIZE, WIDTH, TinyVit, exported

pytestmark = pytest.mark.torch

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


@dataclass(frozen=True, eq=False)
class Depths:
    """Relevance of all tokens at each block's input and of the embedded patches (n, d); and the logit."""

    tokens: list[Array]
    embedded: Array
    logit: float


def depths(model: TinyVit, image: Array, target: int, share: float) -> Depths:
    net: Any = model.double()
    embedded = net.embed(torch.tensor(image[None]).double()).flatten(2).transpose(1, 2).detach().requires_grad_()
    x = torch.cat([net.extra, embedded], dim=1) + net.position
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
    score = z[target] - share * torch.logsumexp(rest, 0)
    *gradients, below = torch.autograd.grad(score, [*inputs, embedded])
    tokens = [(t * g)[0].sum(-1).detach().numpy() for t, g in zip(inputs, gradients, strict=True)]
    found = Depths(tokens, (embedded * below)[0].detach().numpy(), float(z[target].detach()))
    model.float()
    return found


def of_pixels(model: TinyVit, image: Array, embedded: Array, gamma_conv: float) -> Array:
    """(H, W): the gamma rule at the embedding, from the mean colour of the image: the colour's part is a bias there.

    What the positional embedding has is left out.
    """
    embed: Any = model.embed
    W, b = (values.detach().double().numpy() for values in (embed.weight, embed.bias))
    x = image.astype(np.float64)
    colour = np.broadcast_to(x.mean((1, 2), keepdims=True), x.shape)
    flat = W.reshape(WIDTH, -1)
    R = gamma(gamma_conv)(patches(x - colour), flat, b + flat @ patches(colour)[0], embedded)
    return np.asarray(unpatched(R).sum(0))


def twin(
    model: TinyVit, image: Array, target: int, share: float = 1.0, gamma_conv: float = 100.0,
    detail: float = 0.5, pixels: float = 0.25, contrast: float = 2.0,
    opposing: float = 0.1,
) -> Array:  # fmt: skip
    """M D + pixels P with |.|^contrast, times `opposing` where negative.

    M is the mean over blocks 2 to 4 of R, between the centres of patches, P the relevance of the pixels,
    D = 1 - detail + detail Q / (mean of Q in the patch), Q as P of absolute relevances, at least 0.
    """
    found = depths(model, image, target, share)
    P, Q = (of_pixels(model, image, R, gamma_conv) for R in (found.embedded, np.abs(found.embedded)))
    Q = np.maximum(Q, 0)
    of_patch = Q.reshape(GRID[0], PATCH, GRID[1], PATCH).mean((1, 3))
    D = 1 - detail + detail * Q / np.kron(of_patch, np.ones((PATCH, PATCH)))
    scores = middle_tokens(model, found) * D + pixels * P
    powers = np.abs(scores) ** contrast / np.abs(scores).max() ** (contrast - 1)
    return np.asarray(np.where(scores < 0, -opposing * powers, powers))


def middle_tokens(model: TinyVit, found: Depths) -> Array:
    maps = torch.tensor(np.stack([R[model.special :].reshape(GRID) for R in found.tokens[1:4]]))[None]
    return np.asarray(nn.functional.interpolate(maps, SIZE, mode="bilinear")[0].mean(0).numpy() / PATCH**2)


def same(found: Array, expected: Array) -> None:
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= CLOSE * np.abs(expected).max()


@pytest.mark.parametrize(
    ("options", "as_twin"),
    [
        ({}, {}),
        ({"share": 0.75}, {"share": 0.75}),
        ({"against": "nothing"}, {"share": 0.0}),
        ({"gamma_conv": 0.5}, {"gamma_conv": 0.5}),
        ({"detail": 0.0}, {"detail": 0.0}),
        ({"detail": 1.0, "pixels": 0.0}, {"detail": 1.0, "pixels": 0.0}),
        ({"contrast": 1.0, "pixels": 2.0}, {"contrast": 1.0, "pixels": 2.0}),
        ({"opposing": 1.0}, {"opposing": 1.0}),
    ],
)
@pytest.mark.parametrize("special", [0, 1, 2])
def test_agrees_with_the_slow_twin(special: int, options: dict[str, Any], as_twin: dict[str, float]):
    model, explainer = tiny(special)
    for image, target in zip(IMAGES, (3, 0), strict=True):
        (found,) = explainer.explain(image[None], target, method="gradskip+", **options)
        same(found.relevance.scores, twin(model, image, target, **as_twin))


BLOCKS_ALONE: dict[str, Any] = {"detail": 0.0, "pixels": 0.0, "contrast": 1.0, "opposing": 1.0}


def test_blocks_alone():
    model, explainer = tiny()
    (answer,) = explainer.explain(IMAGES[:1], 2, method="gradskip+", **BLOCKS_ALONE)
    same(answer.relevance.scores, middle_tokens(model, depths(model, IMAGES[0], 2, 1.0)))


def test_pixels_share_what_their_patch_has():
    _, explainer = tiny()
    flat, shared = (
        explainer.explain(IMAGES[:1], 2, method="gradskip+", **BLOCKS_ALONE | {"detail": detail})[0].relevance.scores
        for detail in (0.0, 1.0)
    )
    weights = shared / flat  # of a pixel, relative to the mean of its patch
    assert np.allclose(weights.reshape(GRID[0], PATCH, GRID[1], PATCH).mean((1, 3)), 1, atol=1e-6)
    assert weights.min() >= 0
    assert weights.std() > 0.1


@pytest.mark.parametrize("options", [{"contrast": 1.0}, {"contrast": 3.0}, {"opposing": 1.0}], ids=str)
def test_contrast_and_opposing_change_no_order(options: dict[str, Any]):
    _, explainer = tiny()
    first, second = (
        explainer.explain(IMAGES[:1], 2, method="gradskip+", **given)[0].relevance.scores for given in ({}, options)
    )
    assert (np.argsort(first, axis=None) == np.argsort(second, axis=None)).all()


def test_where_the_zero_of_the_input_lies_does_not_matter():
    """Another mean and deviation, folded into the patch embedding: the same function of the photograph."""
    model, explainer = tiny()
    moved = TinyVit(depth=DEPTH)
    moved.load_state_dict(model.state_dict())
    offset, scale = np.array([1.5, -2.0, 0.7], np.float32), np.array([0.5, 3.0, 1.2], np.float32)
    with torch.no_grad():
        embed: Any = moved.embed
        embed.weight /= torch.tensor(scale)[None, :, None, None]
        embed.bias -= (embed.weight.sum((2, 3)) * torch.tensor(offset)).sum(1)
    other = gradskip_onnx.load(exported(moved, OPSET).SerializeToString(), threads=1)
    as_fed = IMAGES[:1] * scale[:, None, None] + offset[:, None, None]
    (expected,), (found,) = (
        explainer.explain(IMAGES[:1], 4, method="gradskip+"),
        other.explain(as_fed, 4, method="gradskip+"),
    )
    same(found.relevance.scores, expected.relevance.scores)
    (before,), (after,) = explainer.explain(IMAGES[:1], 4, method="pe-lrp"), other.explain(as_fed, 4, method="pe-lrp")
    assert np.abs(before.relevance.scores - after.relevance.scores).max() > 0.1 * before.relevance.scores.max()


def test_without_biases_every_depth_adds_up_to_the_logit():
    """All tokens count here; the positional embedding and the class token take their part before the first block."""
    model, explainer = tiny(special=0, bias=False)
    found_by_twin = depths(model, IMAGES[0], 1, 0.0)
    logit = found_by_twin.logit
    assert np.allclose([R.sum() for R in found_by_twin.tokens], logit, rtol=1e-9)
    for block in range(1, DEPTH + 1):
        options = BLOCKS_ALONE | {"first": block, "last": block, "against": "nothing"}
        (found,) = explainer.explain(IMAGES[:1], 1, method="gradskip+", **options)
        assert found.relevance.scores.sum() == pytest.approx(logit, rel=CLOSE)


def test_the_true_gradient_is_another_map_and_does_not_add_up():
    model, explainer = tiny(special=0, bias=False)
    options = BLOCKS_ALONE | {"first": 1, "last": 1, "against": "nothing", "rules": "gradient"}
    (found,) = explainer.explain(IMAGES[:1], 1, method="gradskip+", **options)
    logit = depths(model, IMAGES[0], 1, 0.0).logit
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


def test_a_constant_added_to_all_logits_does_not_change_the_log_odds_but_the_logit():
    model, explainer = tiny()
    raised = TinyVit(depth=DEPTH)
    raised.load_state_dict(model.state_dict())
    with torch.no_grad():
        for head in raised.heads:
            layer: Any = head
            layer.weight += torch.linspace(-1, 1, WIDTH)  # the same row for every class
    other = gradskip_onnx.load(exported(raised, OPSET).SerializeToString(), threads=1)
    for share, equal in ((1.0, True), (0.0, False)):
        maps = [e.explain(IMAGES[:1], 1, method="gradskip+", share=share)[0] for e in (explainer, other)]
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
    found: Any = middle_blocks(numbers, GradSkipPlusOptions())
    assert (found[0], found[-1]) == expected


@pytest.mark.parametrize(
    "options", [{"first": 7}, {"first": 4, "last": 3}, {"last": 7}, {"against": "all"}, {"share": 1.5}]
)
def test_options_that_name_no_block_are_refused(options: dict[str, Any]):
    _, explainer = tiny()
    with pytest.raises(InputError, match=r"gradskip\+ option"):
        explainer.explain(IMAGES[:1], method="gradskip+", **options)


@pytest.mark.parametrize("fine", [(12, 16), (24, 24)])
def test_spreading_keeps_the_sum(fine: tuple[int, int]):
    R = np.random.default_rng(0).normal(size=(3, 4))
    assert spread(R, fine).sum() == pytest.approx(R.sum(), abs=1e-5)


@pytest.mark.parametrize("fine", [(12, 20), (13, 17), (4, 3)])
def test_density_is_strength_over_the_mean_of_the_patch(fine: tuple[int, int]):
    grid = Grid(4, 5)
    strength = np.random.default_rng(0).normal(size=fine)
    row, column = (np.arange(n) * count // n for n, count in zip(fine, grid, strict=True))
    patch = row[:, None] * grid.columns + column
    strength[patch == patch[-1, -1]] = -1.0  # a patch that has none
    positive = np.maximum(strength, 0)
    means = {index: positive[patch == index].mean() for index in np.unique(patch)}
    expected = [
        [p / means[i] if means[i] else 1.0 for p, i in zip(*each, strict=True)]
        for each in zip(positive, patch, strict=True)
    ]
    np.testing.assert_allclose(density(strength, grid), expected, rtol=1e-12)
    assert density(strength, grid)[-1, -1] == 1


def test_the_facts_are_those_of_the_scores():
    _, explainer = tiny()
    relevance = explainer.explain(IMAGES[0], target=1, method="gradskip+", contrast=1.0, opposing=1.0).relevance
    negative = -relevance.scores[relevance.scores < 0].sum() / np.abs(relevance.scores).sum()
    assert relevance.checks["sum"] == pytest.approx(relevance.scores.sum())
    assert relevance.checks["negative_share"] == pytest.approx(negative)
    assert (relevance.checks["first_block"], relevance.checks["last_block"]) == (2, 4)
