"""Checks that a map must pass: another class changes it, unseen noise does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradskip_onnx
from gradskip_onnx.api import Explainer
from gradskip_onnx.datasets import load
from gradskip_onnx.demo import demo_model
from gradskip_onnx.evaluation import choose_method, choose_metric
from gradskip_onnx.evaluation.map_checks import alike, second_class
from gradskip_onnx.images.preprocess import prepare
from gradskip_onnx.metrics import Measured
from gradskip_onnx.tasks import TASKS
from gradskip_onnx.types import Array

pytest.importorskip("scipy")

IMAGES = 2


@pytest.fixture(scope="module")
def demo() -> tuple[Explainer, Array]:
    explainer = gradskip_onnx.load(demo_model(), threads=1)
    entries = load(f"planted:{IMAGES}").entries
    return explainer, np.stack([prepare(entry.read(), explainer.preprocess)[0] for entry in entries])


def measured(demo: tuple[Explainer, Array], metric: str, method: str, **options: Any) -> list[Measured]:
    explainer, images = demo
    choice: Any = choose_metric(metric, **options)
    targets = [top[0].index for top in explainer.classify(images)]
    found: list[Measured] = choice.row.measure(
        explainer, choose_method(method), images, targets, "logit", choice.options
    )
    return found


def values(found: list[Measured]) -> Array:
    return np.array([one.numbers["spearman"] for one in found])


def test_a_map_without_classes_stays_the_same(demo):
    assert (values(measured(demo, "class-sensitivity", "rollout")) == 1).all()


@pytest.mark.parametrize("method", ["gradskip+", "pe-lrp", "grad-cam"])
def test_a_map_of_a_class_changes_with_it(demo, method):
    assert (values(measured(demo, "class-sensitivity", method)) < 0.5).all()


def test_the_other_class_is_the_second_likeliest(demo):
    explainer, images = demo
    found = measured(demo, "class-sensitivity", "grad-cam")
    tops = explainer.classify(images)
    maps = [
        [answer.map for answer in explainer.explain(image, [top[0].index, top[1].index], method="grad-cam")]
        for image, top in zip(images, tops, strict=True)
    ]

    assert [one.numbers["other"] for one in found] == [top[1].index for top in tops]
    np.testing.assert_allclose(values(found), [alike(*pair) for pair in maps], atol=1e-4)  # batches round otherwise


def test_which_class_is_second():
    classes, pixels = TASKS["classification"], TASKS["segmentation"]
    logits = np.array([-3.0, -1.0, -2.0])
    scores = np.zeros((3, 2, 2))
    scores[2] = [[1, 1], [1, -1]]
    scores[0, 1, 1] = 1

    assert second_class(classes, logits, 1) == 2
    assert second_class(classes, logits, 0) == 1  # a class that is not predicted: against the predicted one
    assert second_class(classes, logits[:1], 0) is None
    assert second_class(pixels, scores, 2) == 0
    scores[2] = 1.5
    assert second_class(pixels, scores, 2) is None  # it fills the image


def test_equal_maps_are_alike_and_constant_ones_have_no_ranks():
    flat, slope = np.ones((3, 3)), np.arange(9.0).reshape(3, 3)

    assert alike(flat, flat) == 1
    assert alike(slope, -slope) == pytest.approx(-1)
    assert alike(flat, slope) == 0


def test_more_noise_changes_the_map_more(demo):
    none, little, much = (
        values(measured(demo, "noise-stability", "gradskip+", noise=noise, draws=1)) for noise in (0.0, 1.0, 100.0)
    )

    assert (none == 1).all()
    assert (little < 1).all()
    assert (little > 0.98).all()
    assert (much < 0.9).all()


def test_noise_hangs_on_the_image_and_the_seed_alone(demo):
    explainer, images = demo
    both = values(measured(demo, "noise-stability", "rollout", draws=2))
    swapped = values(measured((explainer, images[::-1].copy()), "noise-stability", "rollout", draws=2))
    other = values(measured(demo, "noise-stability", "rollout", draws=2, seed=1))

    np.testing.assert_allclose(swapped[::-1], both, rtol=1e-6)
    assert (other != both).all()


def test_noise_has_the_strength_asked_for(monkeypatch, demo):
    """Of 2 levels of 255, divided by the deviation of each channel."""
    explainer, images = demo
    fed: list[Array] = []

    def watched(_explainer: Any, _method: Any, given: Array, *_rest: Any) -> list[Array]:
        fed.append(given)
        return [np.arange(9.0).reshape(3, 3)] * len(given)

    monkeypatch.setattr("gradskip_onnx.evaluation.map_checks.maps_of", watched)
    measured(demo, "noise-stability", "rollout", noise=2.0, draws=2)

    assert len(fed) == 3
    assert (fed[1] != fed[2]).any()
    for noisy in fed[1:]:
        strength = (noisy - images).std(axis=(0, 2, 3))
        # the deviation of 18,432 draws is known to 1 / sqrt(2 * 18,432) = 0.5 %; four times that
        np.testing.assert_allclose(strength, 2 / 255 / np.array(explainer.preprocess.std), rtol=0.02)
