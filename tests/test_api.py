"""The public calls on tiny models: same answers for paths, pictures, bytes and arrays, one by one or in a batch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

import gradskip_onnx
from gradskip_onnx.errors import InputError
from gradskip_onnx.passes.opened_model import OpenedModel
from tests.support.models import Vit, vit

LABELS = ("cat", "dog, hound", "bird", "fish", "dog house")
# One graph on one machine: batching may still change the order of sums inside a matrix product.
REORDERED_SUMS: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-7}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.onnx"
    onnx.save(vit(Vit(depth=3)), path)
    return path


@pytest.fixture(scope="module")
def explainer(model: Path):
    return gradskip_onnx.load(model, device="cpu", preprocess={"crop": 1.0}, labels=LABELS)


@pytest.fixture
def picture() -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def images(count: int, shape: tuple[int, ...] = (3, 32, 32)) -> Any:
    return np.random.default_rng(1).standard_normal((count, *shape)).astype(np.float32)


def test_path_picture_and_bytes_agree(model: Path, explainer, picture, tmp_path: Path):
    """A file on disk, an open picture, a model as bytes: one answer."""
    picture.save(tmp_path / "picture.png")
    by_path = explainer.explain(tmp_path / "picture.png")
    by_picture = explainer.explain(picture)
    by_bytes = gradskip_onnx.load(model.read_bytes(), preprocess={"crop": 1.0}).explain(picture)

    assert by_path.map.shape == (40, 60)
    np.testing.assert_array_equal(by_path.map, by_picture.map)
    np.testing.assert_array_equal(by_path.map, by_bytes.map)


def test_one_liner(model: Path, picture):
    result = gradskip_onnx.explain(model, picture)

    assert result.map.dtype == np.float32
    assert result.provider == "CPUExecutionProvider"
    assert any("assumed" in warning for warning in result.warnings)


def test_batch_equals_its_images_one_by_one(explainer):
    """More images than fit into one run, each as if it were alone."""
    batch = images(11)
    together = explainer.explain(batch)
    alone = [explainer.explain(batch[i : i + 1])[0] for i in range(len(batch))]

    assert [a.target.index for a in together] == [b.target.index for b in alone]
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_allclose(a.map, b.map, **REORDERED_SUMS)


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_files_with_a_fixed_batch(batch: int):
    """A file that takes exactly so many images explains any number of them."""
    free = gradskip_onnx.load(vit(Vit()).SerializeToString())
    fixed = gradskip_onnx.load(vit(Vit(batch=batch)).SerializeToString())
    some = images(4)

    for a, b in zip(free.explain(some), fixed.explain(some), strict=True):
        np.testing.assert_allclose(a.map, b.map, **REORDERED_SUMS)


def test_channels_last_gives_the_same_map():
    first, last = (gradskip_onnx.load(vit(Vit(channels_last=flag)).SerializeToString()) for flag in (False, True))
    for a, b in zip(first.explain(images(2)), last.explain(images(2)), strict=True):
        np.testing.assert_allclose(a.map, b.map, **REORDERED_SUMS)


def test_logits_are_those_of_the_original_file(model: Path, explainer):
    batch = images(2)
    original = onnxruntime.InferenceSession(model).run(["logits"], {"image": batch})[0]
    results = explainer.explain(batch)

    for row, result in zip(original, results, strict=True):
        assert result.target.index == row.argmax()
        assert result.target.logit == pytest.approx(row.max(), rel=1e-6)
        exponents = np.exp(row - row.max())
        assert result.target.probability == pytest.approx(exponents.max() / exponents.sum(), rel=1e-5)
        assert [candidate.index for candidate in result.top] == list(np.argsort(-row))


@pytest.mark.parametrize("target", [2, "2", "bird", "BIRD", " bird "])
def test_target_by_number_or_name(explainer, picture, target):
    assert explainer.explain(picture, target).target.index == 2


def test_synonyms_and_parts_of_names(explainer, picture):
    assert explainer.explain(picture, "hound").target.index == 1
    assert explainer.explain(picture, "dog").target.index == 1
    assert explainer.explain(picture, "house").target.index == 4


def test_a_target_for_each_image(explainer):
    assert [r.target.index for r in explainer.explain(images(3), [0, None, "fish"])][::2] == [0, 3]


REFUSED = {
    "unknown name": ({"target": "unicorn"}, "unicorn"),
    "ambiguous name": ({"target": "o"}, "fits"),
    "class out of range": ({"target": 5}, "0 to 4"),
    "negative class": ({"target": -1}, "0 to 4"),
    "unknown method": ({"method": "magic"}, "magic"),
    "unknown option": ({"colour": 3}, "colour"),
    "option out of range": ({"method": "gradskip", "alpha": 2.0}, "alpha"),
    "unknown score": ({"score": "loss"}, "loss"),
    "region without segmentation": ({"region": (3, 4)}, "segmentation"),
}


@pytest.mark.parametrize(("options", "word"), REFUSED.values(), ids=REFUSED.keys())
def test_wrong_requests_are_named(explainer, picture, options, word: str):
    with pytest.raises(InputError, match=word):
        explainer.explain(picture, **options)


WRONG_ARRAYS = {
    "rank": np.zeros((32, 32), np.float32),
    "channels": np.zeros((1, 4, 32, 32), np.float32),
    "size": np.zeros((1, 3, 16, 32), np.float32),
    "empty": np.zeros((0, 3, 32, 32), np.float32),
    "not finite": np.full((1, 3, 32, 32), np.nan, np.float32),
}


@pytest.mark.parametrize("array", WRONG_ARRAYS.values(), ids=WRONG_ARRAYS.keys())
def test_wrong_arrays_are_refused(explainer, array):
    with pytest.raises(InputError):
        explainer.explain(array)


def test_pictures_need_three_channels(picture):
    explainer = gradskip_onnx.load(vit(Vit(channels=4)).SerializeToString())
    with pytest.raises(InputError, match="4 channels"):
        explainer.explain(picture)
    assert explainer.explain(images(1, (4, 32, 32)))[0].map.shape == (32, 32)


def test_sessions_are_opened_once(explainer, picture):
    explainer.explain(picture, method="gradskip")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenedModel, "_make", None)  # whoever would open a session fails
        explainer.explain(picture, 1, method="gradskip", alpha=0.1)
        with pytest.raises(TypeError):
            explainer.explain(picture, 1, method="gradskip", tokens="input")


def test_a_closed_explainer_opens_what_it_needs(explainer, picture):
    before = explainer.explain(picture).map
    explainer.close()

    np.testing.assert_array_equal(explainer.explain(picture).map, before)


def test_asking_for_the_provider_opens_nothing(model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(OpenedModel, "_make", None)

    assert gradskip_onnx.load(model, "cpu").provider == "CPUExecutionProvider"


def test_threads_share_an_explainer(model: Path, picture):
    """Sessions, proofs about classes and shortened models are made once, whoever asks first."""
    explainer = gradskip_onnx.load(model, threads=1)
    jobs: list[tuple[str, Any]] = [("gradskip+", None), ("gradskip", [0, 1]), ("tis", 1), ("grad-cam", 2)] * 3
    options: dict[str, dict[str, Any]] = {"tis": {"masks": 8}}

    def run(job: tuple[str, Any]) -> Any:
        found = explainer.explain(picture, job[1], method=job[0], **options.get(job[0], {}))
        return [each.map for each in (found if isinstance(found, list) else [found])]

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(run, jobs))

    for job, maps in zip(jobs, together, strict=True):
        np.testing.assert_array_equal(maps, run(job))


def test_probability_is_another_direction(explainer, picture):
    """The score that is differentiated matters: logit and probability give different maps."""
    logit, probability = (
        explainer.explain(picture, 2, method="gradskip", score=score).map for score in ("logit", "probability")
    )

    assert not np.allclose(logit, probability, rtol=1e-3)


def test_inspect_is_the_architecture(model: Path, explainer):
    assert gradskip_onnx.inspect(model).blocks == explainer.architecture.blocks
