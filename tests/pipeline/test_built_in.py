"""A built file is explained by what is in it: one session of the file, no graph of our own."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any
from zlib import compress

import numpy as np
import onnx
import pytest

import gradskip_onnx
from gradskip_onnx.errors import ModelError
from gradskip_onnx.ingraph.view import View
from gradskip_onnx.instrument import build_plan
from gradskip_onnx.methods import choose_method
from gradskip_onnx.model_file.metadata import KEY
from gradskip_onnx.pipeline.built_in import NOTE
from gradskip_onnx.runtime.session import Session
from gradskip_onnx.selfcontained.method_file import BuildSettings
from gradskip_onnx.types import Array
from tests.support.built_files import build_into
from tests.support.models import Vit, vit

FIXTURES = Path(__file__).parent.parent / "fixtures"
ROUNDING = 1e-5  # of the largest value of a map


@pytest.fixture(scope="module")
def source():
    return gradskip_onnx.load(vit(Vit(depth=4)).SerializeToString(), threads=1, preprocess="half")


def built(folder: Path, source: Any, method: str = "gradskip+", shape: Any = None, **options: Any) -> Any:
    """A file of a method, opened; `shape` are other settings of the file."""
    path = build_into(folder, source, BuildSettings(choose_method(method, **options), **(shape or {})))
    return gradskip_onnx.load(path, threads=1)


@pytest.fixture
def no_plans(monkeypatch: pytest.MonkeyPatch):
    """Nothing is instrumented from here on."""

    def refused(*_: object, **__: object):
        raise AssertionError("a plan was built")

    monkeypatch.setattr(build_plan, "build_plan", refused)


def images(count: int = 2) -> Array:
    return np.random.default_rng(0).standard_normal((count, 3, 32, 32)).astype(np.float32)


def same(found: Any, expected: Any) -> None:
    assert found.target == expected.target
    assert np.abs(found.map - expected.map).max() <= ROUNDING * np.abs(expected.map).max()


@pytest.mark.parametrize("shape", [{}, {"top": 2}, {"pixels": True}, {"top": 5, "pixels": True}], ids=str)
def test_the_map_and_the_class_are_those_of_the_source(
    source, shape: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
):
    """Also by a file of several classes, and by one that prepares images itself, which is left out."""
    expected = [*source.explain(images()), *source.explain(images()[0][None], target=[2, 4, 0])]
    ranked = source.explain_likeliest(images()[0], 3)
    explainer = built(tmp_path, source, shape=shape)
    request.getfixturevalue("no_plans")
    found = [*explainer.explain(images()), *explainer.explain(images()[0][None], target=[2, 4, 0])]

    for one, other in zip([*found, *explainer.explain_likeliest(images()[0], 3)], [*expected, *ranked], strict=True):
        same(one, other)
        assert NOTE in one.relevance.notes
        assert NOTE not in other.relevance.notes


def test_options_that_were_built_in_are_the_defaults(source, tmp_path: Path, request: pytest.FixtureRequest):
    expected = source.explain(images(), detail=0.0)
    explainer = built(tmp_path, source, detail=0.0)
    other = explainer.explain(images(), detail=0.5)
    request.getfixturevalue("no_plans")

    for one, plain in zip(explainer.explain(images()), expected, strict=True):
        same(one, plain)
    for one, plain in zip(other, source.explain(images()), strict=True):
        same(one, plain)
        assert NOTE not in one.relevance.notes


def test_another_method_is_built_anew(source, tmp_path: Path):
    explainer = built(tmp_path, source, "grad-cam")

    for method in ("gradskip+", "rollout"):
        same(explainer.explain(images(1), method=method)[0], source.explain(images(1), method=method)[0])
    assert NOTE in explainer.explain(images(1), method="grad-cam")[0].relevance.notes


@pytest.mark.parametrize("view", [View(smoothed=True), View(normalised=True)], ids=str)
def test_a_map_that_was_altered_is_computed_anew(source, tmp_path: Path, view: View):
    """Its scores have lost their sign or their place, which pictures and metrics need."""
    explainer = built(tmp_path, source, shape={"view": view})
    for found, expected in zip(explainer.explain(images()), source.explain(images()), strict=True):
        same(found, expected)
        assert NOTE not in found.relevance.notes


def test_several_classes_take_one_run(source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    explainer, run = built(tmp_path, source, shape={"top": 3}), Session.run
    runs = []

    def counted(session: Session, *words: Any) -> dict[str, Array]:
        runs.append(session)
        return run(session, *words)

    monkeypatch.setattr(Session, "run", counted)
    explainer.explain_likeliest(images()[0], 3)

    assert len(runs) == 1


@pytest.mark.slow
@pytest.mark.parametrize("shape", [{}, {"top": 2}], ids=str)
def test_a_region_of_a_segmentation(shape: dict[str, Any], tmp_path: Path):
    segmenter = gradskip_onnx.load(FIXTURES / "segformer.onnx", threads=1)
    explainer = built(tmp_path, segmenter, shape=shape)
    image = np.random.default_rng(1).standard_normal((3, 96, 96)).astype(np.float32)
    for region in (None, (40.0, 50.0), np.eye(96, dtype=bool)):
        found, expected = (one.explain(image, target=3, region=region) for one in (explainer, segmenter))
        same(found, expected)
        assert NOTE in found.relevance.notes


@pytest.mark.parametrize(
    "built_in",
    [{"method": 3}, {"method": "gradskip+", "inputs": None}, [], {"method": "gradskip+", "options": {"detail": []}}],
    ids=str,
)
def test_a_wrong_description_is_a_warning(source, tmp_path: Path, built_in: Any):
    path = build_into(tmp_path, source, BuildSettings(choose_method("gradskip+")))
    model = onnx.load(path)
    document = json.loads(model.metadata_props[0].value)
    document["built"] = document["built"] | built_in if isinstance(built_in, dict) else built_in
    onnx.helper.set_model_props(model, {KEY: json.dumps(document)})
    explainer = gradskip_onnx.load(model.SerializeToString(), preprocess="half")

    assert any("was ignored" in warning for warning in explainer.warnings)


def packed(content: bytes) -> str:
    return b64encode(compress(content)).decode()


@pytest.mark.parametrize(
    "text",
    ["###", b64encode(b"not compressed").decode(), packed(bytes(10_000_000)), packed(b"x" * 500)[:12], packed(b"x")],
    ids=["no base64", "not compressed", "too much", "cut", "no protobuf"],
)
def test_nodes_in_the_metadata_that_cannot_be_read(text: str, source, tmp_path: Path):
    path = build_into(tmp_path, source, BuildSettings(choose_method("gradskip+")))
    model = onnx.load(path)
    document = json.loads(model.metadata_props[0].value)
    onnx.helper.set_model_props(model, {KEY: json.dumps(document | {"original_nodes": text})})
    with pytest.raises(ModelError, match="nodes kept in its metadata"):
        gradskip_onnx.load(model.SerializeToString(), preprocess="half")
