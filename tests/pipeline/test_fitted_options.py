"""MODEL.gradskip.json: used where nothing else is said, ignored for another model, refused in one line if damaged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gradskip_onnx import api
from gradskip_onnx.errors import InputError
from gradskip_onnx.methods import choose_method
from gradskip_onnx.pipeline.fitted_options import NAMES, FittedOptions, path_beside
from tests.support.command_line import fails, run
from tests.support.evaluation_data import FLAGS, PREPROCESS, model_bytes, pictures

OPTIONS = {"first": 2, "last": 3, "detail": 0.0, "pixels": 1.0, "share": 0.5}


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    return pictures(tmp_path_factory.mktemp("data"), 1) / "00.png"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(model_bytes())
    return path


def load(model: Path, **settings):
    return api.load(model, preprocess=PREPROCESS, threads=1, **settings)


def kept(model: Path, /, **changed) -> Path:
    """A file beside the model; a field may be changed."""
    sha256 = load(model, fitted=False).sha256
    document = {"format": 1, "method": "gradskip+", "model": {"sha256": sha256}, "options": OPTIONS} | changed
    path = path_beside(model)
    path.write_text(json.dumps(document))
    return path


def test_the_name_is_that_of_the_model(model):
    assert path_beside(model).name == "model.onnx.gradskip.json"


def test_fitted_options_stand_in_for_defaults(model, image):
    path = kept(model)
    found, plain = load(model).explain(image), load(model, fitted=False).explain(image)
    written = load(model, fitted=False).explain(image, **OPTIONS)

    np.testing.assert_array_equal(found.map, written.map)
    assert not np.array_equal(found.map, plain.map)
    assert {name: found.relevance.options[name] for name in NAMES} == OPTIONS
    assert found.relevance.notes == (f"options from {path.name}",)
    assert plain.relevance.notes == ()


def test_explicit_options_win(model, image):
    kept(model)
    explainer = load(model)
    every = {"first": 0, "last": 0, "detail": 0.5, "pixels": 0.25, "share": 1.0}

    assert explainer.explain(image, detail=1.0).relevance.options["detail"] == 1.0
    assert explainer.explain(image, detail=1.0).relevance.options["pixels"] == OPTIONS["pixels"]
    np.testing.assert_array_equal(explainer.explain(image, **every).map, load(model, fitted=False).explain(image).map)
    assert explainer.explain(image, **every).relevance.notes == ()


def test_a_given_end_of_the_span_frees_the_other():
    """`last=1` with `first=2` of the file would be no block at all."""
    found = FittedOptions("file", OPTIONS).fill(choose_method("gradskip+", last=1))

    assert (found.options.first, found.options.last, found.options.pixels) == (0, 1, 1.0)


def test_other_methods_do_not_care(model, image):
    kept(model)

    assert not [note for note in load(model).explain(image, method="gradskip").relevance.notes if "options" in note]


def test_a_file_for_another_model_is_ignored(model, image):
    kept(model, model={"sha256": "0" * 64})
    explainer = load(model)

    assert explainer.fitted is None
    assert [warning for warning in explainer.warnings if "fitted to another model (000000000000" in warning]
    np.testing.assert_array_equal(explainer.explain(image).map, load(model, fitted=False).explain(image).map)


DAMAGED = [
    ({"format": 2}, "format 1"),
    ({"method": "rise"}, "not a fit of gradskip+"),
    ({"model": 7}, "the hash of the model"),
    ({"options": {}}, "options are missing"),
    ({"options": [1]}, "options are missing"),
    ({"options": {"against": "nothing"}}, "'against' is not fitted"),
    ({"options": {"detail": 1.5}}, "option detail: got 1.5"),
    ({"options": {"first": 1.5}}, "option first: got 1.5"),
    ({"options": {"share": True}}, "option share: got True"),
    ({"options": {"share": "1"}}, "option share = '1'"),
    ({"options": {"pixels": float("nan")}}, "option pixels = nan"),
    ({"options": {"pixels": float("inf")}}, "option pixels = inf"),
    ({"options": {"pixels": 10**400}}, "option pixels = 1000"),
    ({"options": {"first": 7}}, "blocks 7 to"),
]


@pytest.mark.parametrize(("changed", "reason"), DAMAGED, ids=[reason for _, reason in DAMAGED])
def test_damaged_files_are_refused(model, changed, reason):
    path = kept(model, **changed)

    with pytest.raises(InputError, match="fit again, or delete the file") as caught:
        load(model)
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).count(str(path)) == 1
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 500
    assert load(model, fitted=False).fitted is None


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"[]", b"null"])
def test_files_that_are_no_document_are_refused(model, content):
    path_beside(model).write_bytes(content)

    with pytest.raises(InputError, match=r"model\.onnx\.gradskip\.json: not"):
        load(model)


def test_a_folder_and_a_large_file_are_refused(model, monkeypatch):
    path_beside(model).mkdir()
    with pytest.raises(InputError, match="it is a folder"):
        load(model)
    path_beside(model).rmdir()
    kept(model)
    monkeypatch.setenv("GRADSKIP_MAX_TEXT_BYTES", "100")
    with pytest.raises(InputError, match="limit 100"):
        load(model)


def test_explain_says_where_options_come_from(model, image, tmp_path):
    words = ("explain", model, image, "-o", tmp_path / "out", "--force", "--threads", 1, *FLAGS)
    assert "options " not in run(*words).stdout
    path = kept(model)

    label = "gradskip+[share=0.5,first=2,last=3,detail=0.0,pixels=1.0]"
    assert f"options   from {path.name}: {label}\n" in run(*words).stdout
    document = json.loads(run(*words, "-O", "pixels=0.5", "--json").stdout)
    assert document["notes"] == [f"options from {path.name}"]
    assert (document["options"]["pixels"], document["options"]["detail"]) == (0.5, 0.0)
    kept(model, model={"sha256": "0" * 64})
    assert "fitted to another model" in run(*words).stderr
    kept(model, options={"detail": 7})
    fails(run(*words), 2, path.name, "option detail: got 7")
