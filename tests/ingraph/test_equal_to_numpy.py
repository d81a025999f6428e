"""Every method that can be built in, with every option, on every kind of model: the map of the NumPy function."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradskip_onnx
from gradskip_onnx.api import Explainer
from gradskip_onnx.demo import demo_model
from gradskip_onnx.demo.scenes import scene
from gradskip_onnx.images.interpolate import resize
from gradskip_onnx.ingraph import INGRAPH
from gradskip_onnx.methods import choose_method
from gradskip_onnx.selfcontained.method_file import BuildSettings
from gradskip_onnx.types import Array
from tests.support.built_files import build_into, run, session_of

FIXTURES = Path(__file__).parent.parent / "fixtures"
MODELS: dict[str, Callable[[], Any]] = {
    "vit": demo_model,
    "deit": lambda: FIXTURES / "deit_distilled.onnx",
    "segformer": lambda: FIXTURES / "segformer.onnx",
}
# Sums of a few thousand float32 products, where NumPy adds in float64.
ROUNDING = 1e-5

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "gradskip+": [
        {},
        {"against": "nothing"},
        {"share": 0.5},
        {"rules": "gradient"},
        {"gamma_conv": 1.0},
        {"first": 2, "last": 3},
        {"detail": 0.0},
        {"detail": 1.0},
        {"pixels": 0.0},
        {"pixels": 2.0},
        {"contrast": 1.0},
        {"contrast": 3.5},
        {"opposing": 1.0},
    ],
}
CASES = [(name, options) for name, several in OPTIONS.items() for options in several]


@cache
def opened(name: str) -> Explainer:
    return gradskip_onnx.load(MODELS[name](), threads=1, device="cpu")


def pictures(explainer: Explainer, count: int) -> Array:
    """Scenes with planted evidence, as the model takes them."""
    how = explainer.preprocess
    values = np.stack([scene(seed).image for seed in range(count)]) / 255.0
    return np.asarray(((values - how.mean) / how.std).transpose(0, 3, 1, 2), dtype=np.float32)


def named(case: tuple[str, dict[str, Any]]) -> str:
    name, options = case
    return " ".join([name, *(f"{key}={value}" for key, value in options.items())])


def test_every_method_of_the_table_is_compared():
    assert set(OPTIONS) == set(INGRAPH)


@pytest.mark.slow
@pytest.mark.parametrize("model", sorted(MODELS))
@pytest.mark.parametrize("case", CASES, ids=named)
def test_the_map_is_that_of_the_numpy_function(case: tuple[str, dict[str, Any]], model: str, tmp_path: Path):
    """A batch of 4 with given and ranked classes, and each image alone."""
    name, options = case
    explainer = opened(model)
    images, targets = pictures(explainer, 4), [-1, 1, -2, 0]
    session = session_of(build_into(tmp_path, explainer, BuildSettings(choose_method(name, **options))))
    together = run(session, images, target=np.array(targets, np.int64))
    alone = run(session, images[:1])
    question = {"method": name, **options}
    expected = [
        explainer.explain(image[None], target=target, **question)[0]
        if target >= 0
        else explainer.explain_likeliest(image, -target, **question)[-1]
        for image, target in zip(images, targets, strict=True)
    ]
    for place, one in enumerate(expected):
        scores = resize(one.relevance.scores, images.shape[2:])
        assert together["explained"][place] == one.target.index
        within(together["relevance"][place], scores)
    within(alone["relevance"][0], resize(expected[0].relevance.scores, images.shape[2:]))


def within(found: Array, expected: Array) -> None:
    assert np.ptp(expected) > 0
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= ROUNDING * np.abs(expected).max()
