"""Captum's drawing and metrics take our attributions, and its own methods our model."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("captum")

import torch
from captum.attr import Occlusion
from captum.attr import visualization as viz
from captum.metrics import infidelity, sensitivity_max

from gradskip_onnx.adapters.captum import GradskipAttribution, for_visualisation
from gradskip_onnx.adapters.torch_module import torch_module
from tests.support.evaluation_data import SIDE, explainer

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def attribution() -> GradskipAttribution:
    return GradskipAttribution(explainer())


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.randn(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("target", [1, [1, 3], torch.tensor([1, 3]), None, torch.tensor(2)])
def test_attributions_add_up_to_the_map(attribution: GradskipAttribution, images: torch.Tensor, target):
    """Also for classes given in each of Captum's ways; the shape is that of the input."""
    found = attribution.attribute(images, target=target)
    classes = target.tolist() if isinstance(target, torch.Tensor) else target
    expected = attribution.explainer.explain(images.numpy(), classes)

    assert found.shape == images.shape
    assert found.dtype == images.dtype
    for one, map_ in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.sum(dim=0), map_.map, rtol=1e-5, atol=1e-7 * np.abs(map_.map).max())


def test_a_method_and_its_options(images: torch.Tensor):
    chosen = GradskipAttribution(explainer(), "rollout", {"start": 2})
    expected = chosen.explainer.explain(images.numpy(), 1, method="rollout", start=2)

    np.testing.assert_allclose(chosen.attribute(images, 1).sum(dim=1)[1], expected[1].map, rtol=1e-5)


def test_double_precision_comes_back_as_such(attribution: GradskipAttribution, images: torch.Tensor):
    assert attribution.attribute(images.double(), target=1).dtype == torch.float64


def test_numpy_in_numpy_out(attribution: GradskipAttribution, images: torch.Tensor):
    assert isinstance(attribution.attribute(images.numpy(), target=1), np.ndarray)


@pytest.mark.parametrize("method", ["heat_map", "blended_heat_map", "masked_image", "alpha_scaling"])
def test_visualize_image_attr(attribution: GradskipAttribution, images: torch.Tensor, method: str):
    found = for_visualisation(attribution.attribute(images[:1], target=1))
    photo = np.random.default_rng(0).random((SIDE, SIDE, 3))
    figure, axis = viz.visualize_image_attr(found, photo, method=method, sign="positive", use_pyplot=False)

    assert found.shape == (SIDE, SIDE, 3)
    figure.canvas.draw()
    assert len(axis.images) > 0


def test_the_metrics_of_captum(attribution: GradskipAttribution, images: torch.Tensor):
    generator = torch.Generator().manual_seed(0)

    def nudged(inputs):
        noise = 0.02 * torch.randn(inputs.shape, generator=generator)
        return noise, inputs - noise

    wrong = infidelity(attribution.forward_func, nudged, images, attribution.attribute(images, target=1), target=1)
    moved = sensitivity_max(attribution.attribute, images, target=1, n_perturb_samples=2)

    assert wrong.shape == moved.shape == (2,)
    assert torch.isfinite(wrong).all()
    assert (moved > 0).all()


def test_methods_of_captum_on_our_model(attribution: GradskipAttribution, images: torch.Tensor):
    """Those that ask for outputs only."""
    module = torch_module(attribution.explainer)
    found = Occlusion(module).attribute(images, (3, 16, 16), target=1, strides=(3, 16, 16))
    covered = images.clone()
    covered[:, :, :16, :16] = 0
    expected = module(images)[:, 1] - module(covered)[:, 1]

    np.testing.assert_allclose(found[:, 0, 0, 0], expected, rtol=1e-4, atol=1e-6)
