"""TIS and MUTEX against slow twins in torch: the sequence really is shorter there, too."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from scipy import stats

from gradskip_onnx.methods.masking.kmeans import kmeans
from gradskip_onnx.types import Array
from tests.support.torch_vits import GRID, KINDS, Pair, agree, pair, softmax, watch

pytestmark = pytest.mark.torch

models = pytest.mark.parametrize("name", sorted(KINDS))


def lloyd(samples: Array, centres: Array) -> Array:
    """k-means step by step: each sample to its nearest centre, each centre to the mean of its samples."""
    for _ in range(100):
        nearest = [int(np.argmin([np.sum((x - c) ** 2) for c in centres])) for x in samples]
        moved = np.zeros_like(centres)
        for k in range(len(centres)):
            members = [x for x, label in zip(samples, nearest, strict=True) if label == k]
            moved[k] = np.mean(members, axis=0) if members else 0.0
        change = np.sum((moved - centres) ** 2)
        centres = moved
        if change <= 1e-4:
            break
    return centres


def test_kmeans():
    samples = np.random.default_rng(0).standard_normal((60, 5))
    found, steps = kmeans(samples, samples[:7])

    assert steps > 2
    assert np.abs(found - lloyd(samples, samples[:7])).max() < 1e-12


def test_kmeans_leaves_an_empty_cluster_at_zero():
    """Two centres at one place: the first takes all, the second has none; then 0 is nearer to some."""
    samples = np.array([[4.0], [5.0], [6.0], [-1.0]])
    found, _ = kmeans(samples, np.array([[5.0], [5.0]]))

    assert found.ravel().tolist() == lloyd(samples, np.array([[5.0], [5.0]])).ravel().tolist() == [5.0, -1.0]


def weighed(model: Pair, keep: Array) -> Array:
    """sum_i p_i B_ij / sum_i B_ij, 0 where nothing is kept."""
    p = softmax(model.without_tokens(keep))[:, model.target]
    found = np.zeros(model.patches)
    for j in range(model.patches):
        if keep[:, j].any():
            found[j] = sum(p[i] for i in range(len(keep)) if keep[i, j]) / keep[:, j].sum()
    return found.reshape(GRID)


@models
@pytest.mark.parametrize(("masks", "ratio"), [(12, 0.5), (5, 0.3)])
def test_tis(name, masks, ratio):
    model = pair(name)
    outputs = watch(model, model.image).outputs
    channels = np.concatenate([tokens[model.special :] for tokens in outputs], axis=1).T
    chosen = np.random.default_rng(7).choice(len(channels), masks, replace=False)
    centres = lloyd(channels, channels[chosen])
    keep = np.zeros(centres.shape, bool)
    for row, centre in zip(keep, centres, strict=True):
        row[sorted(range(len(centre)), key=lambda j: -centre[j])[: int(ratio * len(centre))]] = True
    expected = weighed(model, keep)
    expected = expected - expected.min()

    agree(model.run("tis", masks=masks, ratio=ratio, seed=7).scores, expected / expected.max())


def mutex_masks(model: Pair, min_cut: float, ratio: float, start: int) -> Array:
    """The 54 masks; statistics by torch and SciPy."""
    k, found = model.special, []
    for merge in (np.min, np.max, np.sum):
        columns, rows = [], []
        for A in watch(model, model.image).attention[start - 1 :]:
            B = merge(A, axis=0)[k:, k:]
            B = np.where(min_cut * B.max() <= B, B, 0.0)
            columns.append(B.sum(axis=0))
            rows.append(B.sum(axis=1))
        for C in (torch.from_numpy(np.stack(columns)), torch.from_numpy(np.stack(rows))):
            q = torch.nan_to_num(C / C.sum(0))
            statistics = [
                -torch.special.xlogy(q, q).sum(0), C.max(0).values, C.min(0).values, C.sum(0), C.std(0),
                C.sum(0) / (C.std(0) + 1e-8), C.median(0).values,
                torch.from_numpy(np.nan_to_num(stats.skew(C.numpy(), axis=0))),
                torch.from_numpy(np.nan_to_num(stats.kurtosis(C.numpy(), axis=0))),
            ]  # fmt: skip
            for v in statistics:
                threshold = torch.sort(v).values[math.ceil(len(v) * ratio) - 1]
                found.append((v >= threshold).numpy())
    return np.stack(found)


@models
@pytest.mark.parametrize(
    "options",
    [
        {"min_cut": 0.2, "ratio": 0.5, "start": 1},
        {"min_cut": 0.2, "ratio": 0.7, "start": 2},
    ],
)
def test_mutex(name, options):
    """Cuts high enough for rows to differ (without special tokens all sum to 1), low enough for layers to."""
    model = pair(name)
    keep = mutex_masks(model, **options)
    found = model.run("mutex", **options)

    assert len(keep) == found.checks["masks"] == 54
    assert found.checks["kept"] == pytest.approx(keep.mean())
    agree(found.scores, weighed(model, keep))
