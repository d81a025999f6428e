"""Class activation maps against the package `grad-cam`, on the same weights in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("pytorch_grad_cam")

import torch
from pytorch_grad_cam import FinerCAM, GradCAM, GradCAMPlusPlus, ScoreCAM
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.images import interpolate
from gradskip_onnx.types import Array
from tests.support.torch_vits import CLASSES, GRID, KINDS, SIZE, Pair, agree, pair, watch

pytestmark = pytest.mark.torch

models = pytest.mark.parametrize("name", sorted(KINDS))


def scaled(values: Array) -> Array:
    low, high = values.min(), values.max()
    return np.asarray((values - low) / (high - low))


def shown(scores: Array) -> Array:
    """A map as the package gives it: at the size of the image, 0 to 1."""
    return scaled(interpolate.resize(scores, SIZE))


def theirs(model: Pair, kind: Any, target: int | None = None, layer: Any = None, **call: Any) -> Array:
    """The package's map; what it is given of the layer are the patches, as a picture."""

    def picture(tokens: torch.Tensor) -> torch.Tensor:
        return tokens[:, model.special :].reshape(len(tokens), *GRID, -1).permute(0, 3, 1, 2)

    cam = kind(model.module, [layer or model.module.blocks[-1].norm1], picture)
    image = torch.from_numpy(model.image[None]).double()
    targets = None if target is None else [ClassifierOutputTarget(target)]
    found: Array = cam(image, targets, **call)[0]
    return found


def compare(model: Pair, method: str, expected: Callable[[int], Array], **options: Any) -> None:
    """Over all classes; where everything speaks against a class both maps are empty, but not for every class."""
    drawn = 0
    for target in range(CLASSES):
        (found,) = model.explainer.explain(model.image[None], target, method=method, **options)
        if found.relevance.scores.any():
            agree(shown(found.relevance.scores), expected(target))
            drawn += 1
        else:
            assert not expected(target).any()
            assert "the map is empty" in found.relevance.notes[0]
    assert drawn > 1


@models
@pytest.mark.parametrize(("method", "kind"), [("grad-cam", GradCAM), ("grad-cam++", GradCAMPlusPlus)])
def test_grad_cam(name, method, kind):
    model = pair(name)
    compare(model, method, lambda target: theirs(model, kind, target))


def test_output_layer_where_patches_are_averaged():
    model = pair("mean")

    agree(
        shown(model.run("grad-cam", layer="output").scores),
        theirs(model, GradCAM, model.target, layer=model.module.blocks[-1]),
    )


@pytest.mark.parametrize("name", ["class token", "distilled"])
def test_output_layer_has_no_gradient_where_patches_are_not_read(name):
    with pytest.raises(UnsupportedModelError, match="try layer=normed") as refusal:
        pair(name).run("grad-cam", layer="output")
    assert refusal.value.code == "zero-gradient"


@models
def test_score_cam(name):
    model = pair(name)

    agree(shown(model.run("score-cam").scores), theirs(model, ScoreCAM, model.target))


@models
def test_score_cam_takes_the_channels_that_vary_most(name):
    """As if the others were not there: the package cannot, so weights and sum are written out."""
    model = pair(name)
    a = watch(model, model.image).normed[-1][model.special :]
    kept = np.argsort(-a.std(axis=0))[:5]
    maps = torch.from_numpy(a[:, kept].T.reshape(1, -1, *GRID))
    large = torch.nn.functional.interpolate(maps, SIZE, mode="bilinear", align_corners=True)[0].numpy()
    masks = np.stack([scaled(each) for each in large])
    z = model.logits(masks[:, None] * model.image)[:, model.target]
    weights = np.exp(z) / np.exp(z).sum()
    expected = np.maximum(a[:, kept] @ weights, 0).reshape(GRID)

    agree(model.run("score-cam", channels=5).scores, expected)


@models
@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_finer_cam(name, alpha):
    model = pair(name)
    compare(model, "finer-cam", lambda target: theirs(model, FinerCAM, alpha=alpha, target_idx=target), alpha=alpha)


@models
@pytest.mark.parametrize("references", [1, 5, 50])
def test_finer_cam_references(name, references):
    """More than there are other classes: all of them."""
    model = pair(name)
    ranks = list(range(1, min(references, CLASSES - 1) + 1))

    compare(
        model, "finer-cam", lambda target: theirs(model, FinerCAM, target_idx=target, comparison_categories=ranks),
        references=references,
    )  # fmt: skip


@models
def test_finer_cam_without_the_others_is_grad_cam(name):
    """alpha = 0: the score is the logit itself."""
    model = pair(name)

    agree(model.run("finer-cam", alpha=0.0).scores, model.run("grad-cam").scores, within=1e-5)
