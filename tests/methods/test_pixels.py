"""Gradients at the pixels against captum, on the same weights in torch and with the same noise."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("captum")

import torch
from captum.attr import InputXGradient, IntegratedGradients, NoiseTunnel, Saliency

from tests.support.torch_vits import KINDS, SIZE, Pair, agree, pair

pytestmark = pytest.mark.torch

models = pytest.mark.parametrize("name", sorted(KINDS))


def image_of(model: Pair) -> torch.Tensor:
    return torch.from_numpy(model.image[None]).double().requires_grad_()


@models
@pytest.mark.parametrize("absolute", [False, True])
def test_input_x_gradient(name, absolute):
    model = pair(name)
    found = InputXGradient(model.module).attribute(image_of(model), target=model.target)[0]

    agree(
        model.run("input-x-gradient", absolute=absolute).scores,
        (found.abs() if absolute else found).sum(0).detach().numpy(),
    )


@models
@pytest.mark.parametrize(("steps", "absolute"), [(50, False), (7, False), (7, True)])
def test_integrated_gradients(name, steps, absolute):
    model = pair(name)
    found = IntegratedGradients(model.module).attribute(
        image_of(model), torch.zeros_like(image_of(model)), model.target, n_steps=steps, method="gausslegendre"
    )[0]

    agree(
        model.run("integrated-gradients", steps=steps, absolute=absolute).scores,
        (found.abs() if absolute else found).sum(0).detach().numpy(),
    )


@models
def test_integrated_gradients_are_complete(name):
    """The map sums to the difference of the scores of the image and of the blank one."""
    model = pair(name)
    whole, blank = model.logits(np.stack([model.image, np.zeros_like(model.image)]))[:, model.target]

    assert model.run("integrated-gradients", steps=100).scores.sum() == pytest.approx(whole - blank, abs=1e-3)


@models
@pytest.mark.parametrize("unit", ["range", "one"])
@pytest.mark.parametrize("absolute", [True, False])
def test_smoothgrad(name, unit, absolute, monkeypatch):
    """Captum draws its noise from torch; it is handed ours. Its Saliency takes the absolute value or not, as we do."""
    model, samples, noise = pair(name), 6, 0.3
    drawn = np.random.default_rng(2).standard_normal((samples, 3, *SIZE))
    width = noise * (float(np.ptp(model.image)) if unit == "range" else 1.0)
    monkeypatch.setattr(torch, "normal", lambda _mean, std: torch.from_numpy(drawn) * std)
    tunnel = NoiseTunnel(Saliency(model.module))
    found = tunnel.attribute(
        image_of(model), nt_samples=samples, stdevs=width, target=model.target, abs=absolute
    )[0]  # fmt: skip

    ours = model.run("smoothgrad", samples=samples, noise=noise, unit=unit, absolute=absolute, seed=2)
    agree(ours.scores, found.sum(0).detach().numpy())


@models
def test_smoothgrad_without_noise_is_the_gradient(name):
    model = pair(name)
    found = Saliency(model.module).attribute(image_of(model), model.target)[0]

    agree(model.run("smoothgrad", samples=2, noise=0.0).scores, found.sum(0).detach().numpy())
