"""Methods made of attention against slow twins: torch in float64, whole matrices, flow as a linear program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from scipy.optimize import linprog

from gradskip_onnx.types import Array
from tests.support.torch_vits import GRID, KINDS, Pair, agree, pair, watch

pytestmark = pytest.mark.torch

models = pytest.mark.parametrize("name", sorted(KINDS))


def read_by_head(model: Pair, tokens: int) -> Array:
    """The row that picks what the head reads: class token, both special tokens, or every patch."""
    row = np.zeros(tokens)
    row[: model.special or tokens] = 1 / (model.special or tokens)
    return row


def on_grid(model: Pair, row: Array) -> Array:
    return row[model.special :].reshape(GRID)


def with_skip(A: Array) -> Array:
    """Rows of A + I divided by their sums."""
    whole = A + np.eye(len(A))
    return np.asarray(whole / whole.sum(axis=1, keepdims=True))


FUSE: dict[str, Callable[..., Array]] = {"mean": np.mean, "max": np.max, "min": np.min}


@models
@pytest.mark.parametrize("heads", sorted(FUSE))
def test_raw_attention(name, heads):
    model = pair(name)
    A = FUSE[heads](watch(model, model.image).attention[-1], axis=0)

    agree(model.run("raw-attention", heads=heads).scores, on_grid(model, read_by_head(model, len(A)) @ A))


@models
@pytest.mark.parametrize(("heads", "start"), [("mean", 1), ("max", 2), ("min", 1)])
def test_rollout(name, heads, start):
    model = pair(name)
    seen = [FUSE[heads](A, axis=0) for A in watch(model, model.image).attention]
    J = np.eye(len(seen[0]))
    for A in seen[start - 1 :]:
        J = with_skip(A) @ J

    agree(model.run("rollout", heads=heads, start=start).scores, on_grid(model, read_by_head(model, len(J)) @ J))


@models
def test_rollout_conserves(name):
    """Rows of every factor sum to 1, so that the whole row does; patches miss what ended at special tokens."""
    total = pair(name).run("rollout").scores.sum()

    assert total < 1 if pair(name).special else total == pytest.approx(1, abs=1e-6)


def maximum_flow(row: Array, capacities: list[Array], sink: int) -> float:
    """As a linear program: edges within their capacities, nothing lost between the layers, as much as can arrive."""
    count, layers = len(row), len(capacities)
    edges = [(layer, i, j) for layer in range(layers) for i in range(count) for j in range(count)]
    room = [capacities[layer][i, j] for layer, i, j in edges]
    kept, bounds_in = [], np.zeros((count, len(edges)))
    for at, (layer, i, _) in enumerate(edges):
        if layer == layers - 1:
            bounds_in[i, at] = 1.0
    for layer in range(layers - 1):
        for token in range(count):
            line = np.zeros(len(edges))
            for at, (of, i, j) in enumerate(edges):
                line[at] = (of == layer + 1 and j == token) * 1.0 - (of == layer and i == token) * 1.0
            kept.append(line)
    arrives = np.array([-1.0 if layer == 0 and j == sink else 0.0 for layer, _, j in edges])
    limits = {"A_ub": bounds_in, "b_ub": row, "bounds": list(zip(np.zeros(len(room)), room, strict=True))}
    if kept:
        limits |= {"A_eq": np.stack(kept), "b_eq": np.zeros(len(kept))}
    return float(-linprog(arrives, **limits).fun)


@models
@pytest.mark.parametrize("blocks", [0, 1])
def test_attention_flow(name, blocks):
    model = pair(name)
    seen = [with_skip(A.mean(axis=0)) for A in watch(model, model.image).attention[-blocks:]]
    row = read_by_head(model, len(seen[0]))
    some = [model.special, model.special + 7, len(row) - 1]  # a program for each patch would take long
    found = model.run("attention-flow", blocks=blocks).scores
    expected = np.array([maximum_flow(row, seen, sink) for sink in some])
    found_there = found.ravel()[[sink - model.special for sink in some]]

    assert found.sum() == pytest.approx(1)
    agree(found_there / found_there[0], expected / expected[0])


@models
@pytest.mark.parametrize("start", [1, 3])
def test_chefer2(name, start):
    model = pair(name)
    seen = watch(model, model.image)
    R = np.eye(seen.attention[0].shape[1])
    for A, G in list(zip(seen.attention, seen.d_attention, strict=True))[start - 1 :]:
        R = R + np.maximum(G * A, 0).mean(axis=0) @ R

    agree(model.run("chefer2", start=start).scores, on_grid(model, read_by_head(model, len(R)) @ R))


@models
@pytest.mark.parametrize(("start", "first"), [(0, 1), (1, 0), (3, 2)])
def test_tam(name, start, first):
    """`first` is the first block of the chain, from 0: a third of five blocks is one."""
    model, steps = pair(name), 5
    mean = [A.mean(axis=0) for A in watch(model, model.image).attention]
    row = read_by_head(model, len(mean[0]))
    s = row @ mean[-1]
    for A in mean[first:-1][::-1]:
        s = s @ A + s
    scales = [watch(model, np.float32(share) * model.image) for share in np.linspace(0, 1, steps)]
    D = np.mean([scaled.d_attention[-1] for scaled in scales], axis=0)
    W = row @ np.maximum(D, 0).mean(axis=0)

    agree(model.run("tam", steps=steps, start=start).scores, on_grid(model, s * W))


@models
@pytest.mark.parametrize("blocks", [0, 2])
def test_legrad(name, blocks):
    """The head reads the tokens of each block in turn; the gradient goes back through that block alone."""
    model = pair(name)
    maps = []
    for at in range(len(model.module.blocks)):
        tokens = model.tokens(model.image)
        for block in model.module.blocks[:at]:
            tokens = block(tokens)
        seen: list[torch.Tensor] = []
        hook = model.module.blocks[at].attn.attn_drop.register_forward_hook(lambda _m, _i, out, to=seen: to.append(out))
        score = model.module.forward_head(model.module.norm(model.module.blocks[at](tokens)))[0, model.target]
        hook.remove()
        (G,) = torch.autograd.grad(score, seen)
        maps.append(G[0].clamp(min=0).mean(dim=0).mean(dim=0).numpy())
    expected = np.mean(maps[-blocks:], axis=0)

    agree(model.run("legrad", blocks=blocks).scores, on_grid(model, expected))


@models
@pytest.mark.parametrize(("blocks", "count"), [(0, 2), (4, 4)])
def test_legrad_as_its_authors_read(name, blocks, count):
    """All tokens of a block, special ones included, become their mean before the norm; one vector reaches the head."""
    model = pair(name)
    maps = []
    for at in range(len(model.module.blocks))[-count:]:
        tokens = model.tokens(model.image)
        for block in model.module.blocks[:at]:
            tokens = block(tokens)
        seen: list[torch.Tensor] = []
        hook = model.module.blocks[at].attn.attn_drop.register_forward_hook(lambda _m, _i, out, to=seen: to.append(out))
        mean = model.module.blocks[at](tokens).mean(dim=1)
        hook.remove()
        score = head_of_one(model, mean)[0, model.target]
        (G,) = torch.autograd.grad(score, seen)
        maps.append(G[0].clamp(min=0).mean(dim=0).mean(dim=0).numpy())

    agree(model.run("legrad", readout="mean", blocks=blocks).scores, on_grid(model, np.mean(maps, axis=0)))


def head_of_one(model: Pair, vector: torch.Tensor) -> Any:
    """The norm and the linear layer, or the mean of both linear layers, on one vector (1, d)."""
    module = model.module
    normed = module.fc_norm(module.norm(vector))
    if hasattr(module, "head_dist"):
        return (module.head(normed) + module.head_dist(normed)) / 2
    return module.head(normed)


def test_legrad_of_the_mean_differs_from_that_of_the_tokens():
    """Else the option would do nothing; the default is as before it."""
    model = pair("class token")
    both = [model.run("legrad", readout=readout, blocks=2).scores for readout in ("tokens", "mean")]

    assert np.corrcoef(both[0].ravel(), both[1].ravel())[0, 1] < 0.999
    np.testing.assert_array_equal(model.run("legrad").scores, model.run("legrad", readout="tokens").scores)
