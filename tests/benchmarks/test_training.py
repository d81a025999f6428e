"""The trainings run: the descent, and one epoch of a small data set to a file and a folder that can be evaluated."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("timm")

import torch
from click.testing import CliRunner

from benchmarks.trained import cifar10
from benchmarks.trained.train import main
from benchmarks.training.descent import STEADY, WARM_UP, Descent, pace
from gradskip_onnx import load
from gradskip_onnx.datasets.table import load as load_data
from tests.benchmarks.test_trained_data import write_package

pytestmark = pytest.mark.torch


def test_the_rate_rises_stays_and_falls_to_zero():
    steps = 10_000

    assert pace(0, steps) == pytest.approx(1 / WARM_UP)
    assert pace(WARM_UP, steps) == pace(int(STEADY * steps) - 1, steps) == 1.0
    assert pace(steps, steps) == 0.0


def test_the_descent_goes_down_and_counts():
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    inputs, truth = torch.randn(64, 3), torch.ones(64, 1)
    descent = Descent(model, 0.05, 400)
    before = (model(inputs) - truth).square().mean().item()
    while descent.progress < 1.0:
        descent.step((model(inputs) - truth).square().mean())

    assert descent.done == 400
    assert (model(inputs) - truth).square().mean().item() < 0.05 * before


@pytest.mark.slow
def test_an_epoch_leaves_a_model_that_is_explained_and_a_folder_that_is_read(tmp_path):
    write_package(tmp_path)
    output = tmp_path / "out"
    ran = CliRunner().invoke(main, ["cifar10", str(tmp_path), "--epochs", "1", "--threads", "1", "-o", str(output)])
    assert ran.exit_code == 0, ran.output

    explainer = load(output / "cifar10.onnx")
    entry = load_data(str(output / "cifar10_test")).entries[0]
    explanation = explainer.explain(entry.read())
    report = json.loads(ran.stdout.splitlines()[-1])
    assert explainer.labels == cifar10.CLASSES
    assert explainer.preprocess.source == "metadata"
    assert explanation.map.shape == (32, 32)
    assert np.isfinite(explanation.map).all()
    assert set(report) == {"epoch", "accuracy", *cifar10.CLASSES}
