"""Quantus measures our maps on our model, and asks for maps in its own call convention."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("quantus", reason="a large package, in the extra `adapters`")

import quantus
import torch

from gradskip_onnx.adapters.quantus import explain, quantus_model
from gradskip_onnx.errors import InputError
from gradskip_onnx.types import Array
from tests.support.evaluation_data import SIDE, explainer

pytestmark = pytest.mark.torch

IMAGES = np.random.default_rng(3).standard_normal((3, 3, SIDE, SIDE)).astype(np.float32)
CLASSES = np.array([1, 0, 4])


@pytest.fixture(scope="module")
def model():
    return quantus_model(explainer())


def test_the_explain_function_gives_our_maps(model):
    found = explain(model, IMAGES, CLASSES, method="rollout", device="cpu")
    expected = model.explainer.explain(IMAGES, CLASSES.tolist(), method="rollout")

    assert found.shape == (3, 1, SIDE, SIDE)
    np.testing.assert_array_equal(found[:, 0], np.stack([one.map for one in expected]))


def test_another_model_is_refused():
    with pytest.raises(InputError, match="Linear was not made by quantus_model"):
        explain(torch.nn.Linear(2, 2), IMAGES, CLASSES)


def test_the_model_is_asked_for_probabilities(model):
    """Quantus puts a softmax behind it."""
    wrapped = quantus.helpers.utils.get_wrapped_model(model, channel_first=True, softmax=True, device="cpu")
    expected = [
        {one.index: one.probability for one in ranked} for ranked in model.explainer.classify(IMAGES)
    ]  # fmt: skip
    found = wrapped.predict(IMAGES)

    for row, known in zip(found, expected, strict=True):
        np.testing.assert_allclose([row[index] for index in known], list(known.values()), rtol=1e-4)


METRICS = {
    "complexity": lambda: quantus.Sparseness(display_progressbar=False, disable_warnings=True),
    "robustness": lambda: quantus.MaxSensitivity(nr_samples=2, display_progressbar=False, disable_warnings=True),
    "faithfulness": lambda: quantus.FaithfulnessCorrelation(
        nr_runs=8, subset_size=64, return_aggregate=False, display_progressbar=False, disable_warnings=True
    ),
    "pixel flipping": lambda: quantus.PixelFlipping(
        features_in_step=SIDE * 4, display_progressbar=False, disable_warnings=True
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.filterwarnings("ignore")  # of Quantus, about its defaults
def test_metrics_of_every_kind(model, name: str):
    """Maps come from the function, again and again where a metric disturbs the image."""
    found = METRICS[name]()(
        model=model, x_batch=IMAGES, y_batch=CLASSES, a_batch=None, device="cpu", softmax=True, channel_first=True,
        explain_func=explain, explain_func_kwargs={"method": "gradskip"},
    )  # fmt: skip

    assert len(found) == len(IMAGES)
    assert np.isfinite(np.asarray(found, float)).all()


@pytest.mark.filterwarnings("ignore")
def test_sparseness_by_hand(model):
    """The Gini index of the map Quantus was given, so that it is our map and not another."""
    (found,) = quantus.Sparseness(display_progressbar=False, disable_warnings=True)(
        model=model, x_batch=IMAGES[:1], y_batch=CLASSES[:1], a_batch=None, device="cpu", channel_first=True,
        explain_func=explain, explain_func_kwargs={"method": "rollout"},
    )  # fmt: skip

    assert found == pytest.approx(gini(model.explainer.explain(IMAGES[:1], 1, method="rollout")[0].map), abs=1e-4)


def gini(values: Array) -> float:
    """Half of the mean difference of two entries, divided by their mean."""
    flat = np.abs(values).ravel()
    return float(np.abs(flat[:, None] - flat).mean() / (2 * flat.mean()))
