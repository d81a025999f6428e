"""What `load` and `explain` take, what they say they assumed, and what they refuse."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

import gradskip_onnx
from gradskip_onnx import GradskipError, Preprocess, PreprocessingWarning
from tests.support.models import Vit, vit

LABELS = ("cat", "dog", "bird", "fish", "elk")
KNOWN: dict[str, Any] = {"mean": 0.5, "std": 0.5, "crop": 1.0}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of its own for each test: warnings come once a model."""
    described = vit(Vit(depth=2))
    described.doc_string = str(tmp_path)
    onnx.save(described, tmp_path / "tiny.onnx")
    return tmp_path / "tiny.onnx"


@pytest.fixture
def picture() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8))


def test_what_was_assumed_is_warned_of_once_a_model(model):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gradskip_onnx.load(model)
        gradskip_onnx.load(model)
    (warning,) = caught
    text = str(warning.message)
    for assumption in ("mean 0.485 0.456 0.406", "std 0.229 0.224 0.225", "resize shorter", "crop 0.875",
                       "interpolation bicubic", "channels rgb"):  # fmt: skip
        assert assumption in text
    assert "preprocess={'mean'" in text
    assert text.startswith("tiny.onnx: ")
    assert warning.filename == __file__  # the line of the caller, and not one of the library


def test_the_one_call_warns_at_its_line(model, picture):
    with pytest.warns(PreprocessingWarning) as caught:
        gradskip_onnx.explain(model, picture)

    assert caught[0].filename == __file__


def test_what_was_said_is_not_assumed(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradskip_onnx.load(model, preprocess=KNOWN)
        gradskip_onnx.load(model, preprocess=Preprocess(size=(32, 32)))
    with pytest.warns(PreprocessingWarning) as caught:
        gradskip_onnx.load(model, preprocess={"mean": 0.5, "channels": "bgr"})
    assert "mean" not in str(caught[0].message).partition("say otherwise")[0]
    assert "std 0.229" in str(caught[0].message)


def test_the_one_call_takes_what_both_take(model, picture):
    found = gradskip_onnx.explain(
        model, picture, "bird", device="cpu", threads=1, preprocess=KNOWN, labels=LABELS, method="gradskip", alpha=0.2
    )
    loaded = gradskip_onnx.load(model, "cpu", threads=1, preprocess=KNOWN, labels=LABELS)

    np.testing.assert_array_equal(found.map, loaded.explain(picture, "bird", method="gradskip", alpha=0.2).map)
    assert found.preprocess.mean == (0.5, 0.5, 0.5)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a slip in a key of load": ({"devise": "cpu"}, "'devise'; did you mean 'device'"),
    "a slip in a key of explain": ({"metod": "rise"}, "'metod'; did you mean 'method'"),
    "a slip in an option": ({"method": "gradskip", "alhpa": 0.2}, "gradskip 'alhpa'; did you mean 'alpha'"),
    "a slip in the preprocessing": ({"preprocess": {"meen": 0.5}}, "'meen'; did you mean 'mean'"),
    "a slip in a preset": ({"preprocess": "imagnet"}, "'imagnet'; did you mean 'imagenet'"),
    "a list of settings": ({"preprocess": [0.5]}, "preprocess: got list"),
    "a value of preprocessing": ({"preprocess": {"resize": "squash"}}, "shorter, stretch or pad"),
    "a device by number": ({"device": 0}, "device: got 0; use auto, cpu"),
    "threads as text": ({"threads": "2"}, "threads: got '2'"),
    "a size of three": ({"size": (3, 32, 32)}, "size"),
    "labels that are numbers": ({"labels": [1, 2]}, "a class name is a text"),
    "labels that are nowhere": ({"labels": "nowhere.txt"}, "nowhere.txt"),
    "a target that is no class": ({"target": 1.5}, "class 1.5: give an index"),
    "an unknown method": ({"method": "magic"}, "unknown method 'magic'"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.filterwarnings("ignore::gradskip_onnx.PreprocessingWarning")
def test_what_is_wrong_is_an_error_of_ours(model, picture, case):
    options, message = WRONG[case]
    with pytest.raises(GradskipError, match=message):
        gradskip_onnx.explain(model, picture, **options)


@pytest.mark.parametrize("given", [None, 3, np.zeros(3)], ids=str)
def test_what_is_no_model_is_refused(given):
    for call in (gradskip_onnx.load, gradskip_onnx.inspect):
        with pytest.raises(GradskipError, match="give the path of an ONNX file"):
            call(given)


def test_models_in_memory(model):
    forms: list[Any] = [model.read_bytes(), bytearray(model.read_bytes()), onnx.load(model)]
    for given in forms:
        assert gradskip_onnx.load(given, preprocess=KNOWN).architecture.classes == 5


@pytest.mark.parametrize("kind", ["list", "mapping", "text", "path", "json"])
def test_labels_in_any_form(model, tmp_path, kind):
    (tmp_path / "names.txt").write_text("\n".join(LABELS))
    (tmp_path / "names.json").write_text(json.dumps({str(i): name for i, name in enumerate(LABELS)}))
    given: dict[str, Any] = {
        "list": list(LABELS),
        "mapping": dict(enumerate(LABELS)),
        "text": str(tmp_path / "names.txt"),
        "path": tmp_path / "names.txt",
        "json": tmp_path / "names.json",
    }

    assert gradskip_onnx.load(model, labels=given[kind], preprocess=KNOWN).labels == LABELS


def test_values_as_people_write_them(model):
    given = {"mean": [0.5, 0.5, 0.5], "std": np.full(3, 0.5), "crop": 1.0, "size": 32, "resize": "short-side"}
    found = gradskip_onnx.load(model, preprocess=given).preprocess

    assert (found.mean, found.std, found.size, found.resize) == ((0.5,) * 3, (0.5,) * 3, (32, 32), "shorter")
    assert gradskip_onnx.load(model, preprocess="half").preprocess.mean == (0.5, 0.5, 0.5)
    assert gradskip_onnx.load(model, size=32, preprocess=KNOWN).preprocess.size == (32, 32)


def test_predict_gives_all_logits(model, picture):
    explainer = gradskip_onnx.load(model, "cpu", preprocess=KNOWN, labels=LABELS)
    batch = np.random.default_rng(1).standard_normal((11, 3, 32, 32)).astype(np.float32)
    expected = onnxruntime.InferenceSession(model).run(["logits"], {"image": batch})[0]

    np.testing.assert_allclose(explainer.predict(batch), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(explainer.predict(iter(batch)), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(explainer.predict(list(batch), batch_size=4), expected, rtol=1e-5, atol=1e-6)
    assert explainer.predict(picture).shape == (1, 5)
    assert explainer.predict([]).shape == (0, 5)
    (scores,), top = explainer.predict(picture), explainer.classify(picture)
    assert [each.index for each in top] == list(np.argsort(-scores))
    assert [each.logit for each in top] == [scores[each.index] for each in top]


def test_predict_of_a_segmentation_has_pixels():
    segmenter = Path(__file__).parent / "fixtures" / "segformer.onnx"
    explainer = gradskip_onnx.load(segmenter, preprocess=KNOWN)
    found = explainer.predict(np.zeros((2, *explainer.architecture.input_dims), np.float32))

    assert found.shape[:2] == (2, explainer.architecture.classes)
    assert found.ndim == 4
    assert explainer.predict([]).shape == (0, *found.shape[1:])
