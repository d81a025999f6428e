"""An explainer goes to other processes and is shared by threads: the answers stay the same."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

import gradskip_onnx
from gradskip_onnx.errors import ModelError
from gradskip_onnx.images.read import decode
from gradskip_onnx.pipeline.explainer import Explainer
from gradskip_onnx.types import Array
from tests.support.models import Vit, vit

LABELS = ("cat", "dog", "bird", "fish", "elk")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(vit(Vit(depth=2)), tmp_path / "tiny.onnx")
    return tmp_path / "tiny.onnx"


def opened(model: Path | bytes) -> Explainer:
    return gradskip_onnx.load(model, "cpu", threads=1, labels=LABELS, preprocess={"mean": 0.5, "std": 0.5, "crop": 1.0})


def pixels(seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 256, (40, 60, 3), dtype=np.uint8)


@pytest.mark.parametrize("kind", ["path", "bytes"])
def test_an_explainer_is_pickled_and_opens_its_model_again(model, kind, monkeypatch, tmp_path):
    explainer = opened(model if kind == "path" else model.read_bytes())
    expected = explainer.explain(pixels(), "bird")
    packed = pickle.dumps(explainer)
    monkeypatch.chdir(tmp_path.parent)  # relative names would lead elsewhere
    again = pickle.loads(packed)

    assert repr(again) == repr(explainer)
    assert (again.labels, again.preprocess, again.warnings) == (LABELS, explainer.preprocess, explainer.warnings)
    found = again.explain(pixels(), "bird")
    np.testing.assert_array_equal(found.map, expected.map)
    if kind == "path":
        assert len(packed) < 10_000  # the name of the file, and not its weights


def test_a_model_that_changed_is_not_opened_in_its_place(model):
    packed = pickle.dumps(opened(model))
    onnx.save(vit(Vit(depth=3)), model)

    with pytest.raises(ModelError, match="changed since it was pickled"):
        pickle.loads(packed)
    model.unlink()
    with pytest.raises(ModelError, match="does not exist"):
        pickle.loads(packed)


@pytest.mark.slow
def test_workers_of_another_process_explain(model):
    explainer = opened(model)
    images = [pixels(seed) for seed in range(4)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        together = list(pool.map(explainer.explain, images))

    for found, image in zip(together, images, strict=True):
        np.testing.assert_array_equal(found.map, explainer.explain(image).map)
        assert found.figure().size == explainer.explain(image).figure().size


def test_threads_explain_classify_and_draw_at_once(model):
    explainer = opened(model)
    images = [pixels(seed) for seed in range(6)]
    expected = [explainer.explain(image, method=method) for image in images for method in ("gradskip+", "grad-cam")]
    explainer.close()  # so that they race for the first session

    def work(job: tuple[Array, str]) -> tuple[Array, bytes, int]:
        found = explainer.explain(job[0], method=job[1])
        return found.map, found.figure().tobytes(), explainer.classify(job[0])[0].index

    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(work, [(image, method) for image in images for method in ("gradskip+", "grad-cam")]))

    for (values, drawn, first), alone in zip(together, expected, strict=True):
        np.testing.assert_array_equal(values, alone.map)
        assert drawn == alone.figure().tobytes()
        assert first == alone.top[0].index


def test_threads_that_decode_leave_the_filters_of_warnings_as_they_were():
    """`warnings.catch_warnings` in several threads would restore what another one had set."""
    buffer = io.BytesIO()
    Image.fromarray(pixels()).save(buffer, "PNG")
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: decode(buffer.getvalue(), "a.png"), range(200)))

    assert list(warnings.filters) == before


def test_our_own_warnings_are_heard_while_others_decode():
    code = """
import warnings
from gradskip_onnx.errors import PreprocessingWarning
from gradskip_onnx.images.read import _QUIET
with _QUIET:
    warnings.warn("heard", PreprocessingWarning)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "PreprocessingWarning: heard" in done.stderr
