"""Every method that can be built in, with every option, on every kind of model: the map of the NumPy function."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import gradskip_onnx
from gradskip_onnx.api import Explainer
from gradskip_onnx.demo import demo_model
from gradskip_onnx.demo.scenes import scene
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.layouts import as_fed
from gradskip_onnx.images.interpolate import resize
from gradskip_onnx.ingraph import INGRAPH
from gradskip_onnx.instrument import chains
from gradskip_onnx.methods import choose_method, find_method
from gradskip_onnx.selfcontained.method_file import BuildSettings
from gradskip_onnx.tasks import task_of
from gradskip_onnx.types import Array
from tests.support.any_size import segformer_of_any_size
from tests.support.built_files import bodies_of, build_into, domains, nodes_of, run, session_of
from tests.support.models import Vit, vit
from tests.support.swin import swin

FIXTURES = Path(__file__).parent.parent / "fixtures"
MODELS: dict[str, Callable[[], Any]] = {
    "vit": demo_model,
    "deit": lambda: FIXTURES / "deit_distilled.onnx",
    "segformer": lambda: FIXTURES / "segformer.onnx",
    "swin": swin,
    "padded swin": lambda: swin(40),
    "folded heads": lambda: vit(Vit(depth=4, folded_heads=True)).SerializeToString(),
    "channels last": lambda: vit(Vit(depth=4, channels_last=True)).SerializeToString(),
    "one image": lambda: vit(Vit(depth=4, batch=1, pooled=True, size=(32, 48))).SerializeToString(),
    "any size, 64x96": segformer_of_any_size,
    "any size, 128x64": segformer_of_any_size,
}
SIZES = {"any size, 64x96": (64, 96), "any size, 128x64": (128, 64)}  # what a model that takes any is built for
WITH_TORCH = ("swin", "padded swin", *SIZES)
DEFAULTS_ONLY = ("padded swin", "folded heads", "channels last", "one image", *SIZES)
# Sums of a few thousand float32 products, where NumPy adds in float64.
ROUNDING = 1e-5
# A map that is a small difference of large terms, 20 times its largest value.
CANCELS = {("grad-cam", "output", "segformer"): 3e-5}

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
    "gradskip": [
        {},
        {"alpha": 0.0},
        {"alpha": 1.0, "gamma": 0.0},
        {"gamma": 0.9},
        {"eps": 1e-6},
        {"tokens": "input"},
        {"tokens": "normed"},
        {"tokens": "branch"},
        {"gate": "branch"},
        {"gate": "attention"},
        {"start": 2},
        {"steps": 0},
        {"steps": 1},
        {"flow": "input"},
        {"gini": "row"},
        {"select": "weight"},
        {"select": "equal"},
        {"select": "one"},
        {"heads": "0-25"},
        {"heads": "25-50", "select": "weight"},
        {"heads": "50-75", "focus": "entropy"},
        {"heads": "75-100", "gini": "row", "focus": "entropy"},
        {"weight": "key"},
        {"renorm_rows": True},
        {"special": "keep"},
        {"stages": "last"},
        {"stages": "each"},
        {"stages": "each", "tokens": "input", "gate": "branch"},
        {"transition": "gradient"},
        {"transition": "gradient", "stages": "each", "weight": "key"},
        {"gradient": "logit"},
        {"gradient": "probability"},
    ],
    "grad-cam": [{}, {"layer": "output"}],
    "input-x-gradient": [{}, {"absolute": True}],
    "rollout": [{}, {"heads": "max"}, {"heads": "min"}, {"start": 3}],
    "pe-lrp": [
        {},
        {"part": "image"},
        {"part": "position"},
        {"gamma_linear": 0.2, "gamma_conv": 1.0},
        {"read": "tokens"},
        {"read": "tokens", "part": "image"},
        {"read": "tokens", "part": "position"},
    ],
    "attnlrp": [{}, {"variant": "full"}, {"gamma_linear": 0.2, "gamma_conv": 1.0}, {"read": "tokens"}],
}


def named(name: str, options: dict[str, Any], model: str) -> str:
    return " ".join([name, *(f"{key}={value}" for key, value in options.items()), f"of {model}"])


CASES = [
    pytest.param(
        name, options, model, id=named(name, options, model), marks=[pytest.mark.torch] * (model in WITH_TORCH)
    )
    for name, several in OPTIONS.items()
    for options in several
    for model in MODELS
    if not options or model not in DEFAULTS_ONLY
]


@cache
def opened(name: str) -> Explainer:
    return gradskip_onnx.load(MODELS[name](), threads=1, device="cpu", size=SIZES.get(name))


def pictures(explainer: Explainer, count: int) -> Array:
    """Scenes with planted evidence, as the model takes them; noise for a model of another size."""
    dims, how = explainer.architecture.input_dims, explainer.preprocess
    if dims.size != (96, 96):
        return np.random.default_rng(0).standard_normal((count, *dims)).astype(np.float32)
    values = np.stack([scene(seed).image for seed in range(count)]) / 255.0
    return np.asarray(((values - how.mean) / how.std).transpose(0, 3, 1, 2), dtype=np.float32)


@pytest.mark.parametrize("name", INGRAPH)
def test_every_option_and_every_choice_is_compared(name: str):
    for option in fields(find_method(name).options):
        tried = {settings[option.name] for settings in OPTIONS[name] if option.name in settings}
        assert tried - {option.default}, option.name
        assert tried | {option.default} >= set(option.metadata.get("choices", ())), option.name


def test_every_method_of_the_table_is_compared():
    assert set(OPTIONS) == set(INGRAPH)


@pytest.mark.parametrize("model", ["vit", "deit", "segformer", pytest.param("swin", marks=pytest.mark.torch)])
@pytest.mark.parametrize(
    ("name", "options"),
    [("gradskip", {}), ("gradskip", {"gini": "row"}), ("rollout", {}), ("rollout", {"heads": "max"})],
)
def test_an_attention_that_is_made_late_gives_the_same_map(
    name: str, options: dict[str, Any], model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As of a large one: a copy of the nodes that make it waits for the relevance that arrives at its block."""
    explainer, settings = opened(model), BuildSettings(choose_method(name, **options))
    images = pictures(explainer, 2)
    expected = run(session_of(build_into(tmp_path, explainer, settings)), images)["relevance"]
    smaller = 0.2 if model == "segformer" else 1.01  # its few keys make an attention no larger than its queries
    for limit, value in {"HELD": 0, "LARGE": 1, "TIMES_SMALLER": smaller}.items():
        monkeypatch.setattr(chains, limit, value)
    path = build_into(tmp_path, explainer, settings)
    onnx.checker.check_model(str(path), full_check=True)
    found = run(session_of(path), images)["relevance"]
    file = onnx.load(path, load_external_data=False)
    again = [node for body in bodies_of(file.graph) for node in nodes_of(body) if node.op_type == "Softmax"]

    assert np.abs(found - expected).max() <= ROUNDING * np.abs(expected).max()
    assert len(again) >= len(explainer.architecture.blocks) - 1  # no patch of the last block may be read
    assert json.loads(file.metadata_props[0].value)["built"]["large"]


def test_the_probability_of_the_class(tmp_path: Path):
    """The other score of methods that have none of their own."""
    explainer, settings = opened("vit"), BuildSettings(choose_method("grad-cam"), score="probability")
    images = pictures(explainer, 2)
    found = run(session_of(build_into(tmp_path, explainer, settings)), images)["relevance"]
    for one, image in zip(found, images, strict=True):
        scores = explainer.explain(image[None], method="grad-cam", score="probability")[0].relevance.scores
        within(one, np.asarray(scores), images.shape[2:], ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options", "model"), CASES)
def test_the_map_is_that_of_the_numpy_function(name: str, options: dict[str, Any], model: str, tmp_path: Path):
    """A batch of 4 with given and ranked classes, and each image alone; where `explain` refuses, zeros.

    In standard operators of the opset of the source, which the checker of ONNX accepts.
    """
    explainer = opened(model)
    batch = explainer.model.image.dims[0] or 4
    images, targets = pictures(explainer, batch), [-1, 1, -2, 0][:batch]
    expected = [
        numpy_scores(explainer, image, target, method=name, **options)
        for image, target in zip(images, targets, strict=True)
    ]
    try:
        path = build_into(tmp_path, explainer, BuildSettings(choose_method(name, **options)))
    except UnsupportedModelError:
        assert expected == [None] * batch
        return
    onnx.checker.check_model(str(path), full_check=True)
    file = onnx.load(path, load_external_data=False)
    assert domains(file.graph) == {""}
    assert {entry.domain: entry.version for entry in file.opset_import} == {"": explainer.model.source.opset["ai.onnx"]}
    bound = CANCELS.get((name, options.get("layer", ""), model), ROUNDING)
    session, fed = session_of(path), as_fed(images, explainer.architecture.input_layout)
    found = run(session, fed, target=np.array(targets, np.int64))["relevance"]
    for one, scores in zip(found, expected, strict=True):
        within(one, scores, images.shape[2:], bound)
    within(run(session, fed[:1])["relevance"][0], expected[0], images.shape[2:], bound)


def numpy_scores(explainer: Explainer, image: Array, target: int, **question: Any) -> Array | None:
    """The scores of the NumPy function for a class or a rank; None where it refuses."""
    if target < 0:
        ranked = explainer.predict(image[None])
        target = int(np.argsort(-task_of(explainer.architecture).ranked(ranked)[0], kind="stable")[-1 - target])
    try:
        return np.asarray(explainer.explain(image[None], target=target, **question)[0].relevance.scores)
    except UnsupportedModelError:
        return None


def within(found: Array, scores: Array | None, size: tuple[int, int], bound: float) -> None:
    if scores is None:
        assert not found.any()
        return
    expected = resize(scores, size)
    assert np.abs(found - expected).max() <= bound * np.abs(expected).max()
