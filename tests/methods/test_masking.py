"""RISE and ViT-CX against slow twins: masks by SciPy and torch, clusters by scikit-learn, scores by torch."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

import torch
from scipy import ndimage
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics.pairwise import cosine_similarity

from gradskip_onnx.methods.masking.rise import RiseOptions, draw_masks
from gradskip_onnx.types import Array
from tests.support.torch_vits import GRID, KINDS, SIZE, Pair, agree, pair, watch

pytestmark = pytest.mark.torch

models = pytest.mark.parametrize("name", sorted(KINDS))


def rise_masks(options: RiseOptions, size: tuple[int, int]) -> Array:
    """As the reference makes them: a grid enlarged to one cell more than the image by reflection, and cropped.

    scikit-image's resize(order=1, mode="reflect", anti_aliasing=False) is this call of SciPy.
    """
    rng = np.random.default_rng(options.seed)
    s, cell = options.cells, [int(np.ceil(side / options.cells)) for side in size]
    masks = []
    for _ in range(options.masks):
        seen = (rng.random((s, s)) < options.keep).astype(float)
        large = ndimage.zoom(seen, [(s + 1) * side / s for side in cell], order=1, mode="mirror", grid_mode=True)
        assert large.shape == ((s + 1) * cell[0], (s + 1) * cell[1])
        y, x = (int(rng.integers(0, side)) for side in cell)
        masks.append(large[y : y + size[0], x : x + size[1]])
    return np.stack(masks)


@pytest.mark.parametrize("size", [(32, 40), (224, 224), (33, 50)])
@pytest.mark.parametrize(("cells", "keep"), [(8, 0.1), (7, 0.5), (1, 0.5)])
def test_masks_of_rise(size, cells, keep):
    options = RiseOptions(masks=40, cells=cells, keep=keep, seed=3)
    found = np.concatenate(list(draw_masks(options, size)))

    assert found.shape == (40, *size)
    assert np.abs(found - rise_masks(options, size)).max() < 1e-6


def test_masks_of_rise_show_as_much_as_asked_for():
    """The mean over many masks is the share of cells kept, everywhere in the picture."""
    masks = np.concatenate(list(draw_masks(RiseOptions(masks=3000, cells=8, keep=0.3), (32, 32))))

    assert np.abs(masks.mean(axis=0) - 0.3).max() < 0.05


@models
def test_rise(name):
    model, options = pair(name), RiseOptions(masks=70, cells=5, keep=0.4, seed=1)
    masks = rise_masks(options, SIZE)
    p = model.probabilities(masks[:, None] * model.image)
    expected = np.tensordot(p, masks, axes=1) / (70 * 0.4)

    agree(model.run("rise", **asdict(options)).scores, expected)


def scaled(maps: Array) -> Array:
    """Each map brought to 0 ... 1; a flat one to 0."""
    low, high = (pick(axis=(1, 2), keepdims=True) for pick in (maps.min, maps.max))
    return np.asarray(np.divide(maps - low, high - low, out=np.zeros_like(maps), where=high > low))


def vit_cx(model: Pair, distance: float, noise: float, seed: int) -> tuple[Array, int]:
    """The map by the letter of the paper, everything at the size of the image."""
    features = watch(model, model.image).normed[-1][model.special :].T.reshape(1, -1, *GRID)
    large = torch.nn.functional.interpolate(torch.from_numpy(features), SIZE, mode="bilinear", align_corners=False)
    masks = scaled(large[0].numpy())
    apart = np.maximum(1 - cosine_similarity(masks.reshape(len(masks), -1)), 0)
    labels = AgglomerativeClustering(
        n_clusters=None, metric="precomputed", linkage="complete", distance_threshold=distance
    ).fit_predict(apart)
    in_order = list(dict.fromkeys(labels))  # by the first channel of each
    M = scaled(np.stack([masks[labels == label].sum(axis=0) for label in in_order]))
    rng, total = np.random.default_rng(seed), np.zeros(SIZE)
    (whole,) = model.probabilities(model.image[None])
    for mask in M:
        e = noise * rng.standard_normal(model.image.shape)
        a, b = model.probabilities(
            np.stack([model.image * mask + e * (1 - mask), model.image + e * (1 - mask)])
        )  # fmt: skip
        total += (a - b + whole) * mask
    covered = M.sum(axis=0)
    return np.where(covered > 0, total / np.maximum(covered, 1e-300), 0.0) / len(M), len(M)


@models
@pytest.mark.parametrize(("distance", "noise"), [(0.1, 0.1), (0.15, 0.5), (0.02, 0.0)])
def test_vit_cx(name, distance, noise):
    model = pair(name)
    expected, clusters = vit_cx(model, distance, noise, 4)
    found = model.run("vit-cx", distance=distance, noise=noise, seed=4)

    assert found.checks["masks"] == clusters > 1
    agree(found.scores, expected)
