"""Audits of other kinds of models: segmentation with known areas, a fixed batch, files that need more than images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from PIL import Image

from gradskip_onnx import api
from gradskip_onnx.api import Explainer
from gradskip_onnx.audit.own_model import OwnModel
from gradskip_onnx.audit.run import run_audit
from gradskip_onnx.audit.settings import AuditSettings, CheckSettings
from gradskip_onnx.datasets import load
from gradskip_onnx.errors import ModelError
from gradskip_onnx.methods import choose_method
from gradskip_onnx.tasks import TASKS
from tests.support.evaluation_data import PREPROCESS, SIDE, model_bytes, pictures
from tests.support.models import segmenter

SETTINGS = AuditSettings(method=choose_method("grad-cam"), batch_size=4, check=CheckSettings(draws=2))


def ade20k(folder: Path) -> Path:
    """Three images; the class 1 covers most of each mask, 0 and 2 less, and a quarter is unlabelled."""
    rng = np.random.default_rng(0)
    for kind in ("images", "annotations"):
        (folder / kind / "validation").mkdir(parents=True)
    for at in range(3):
        pixels = rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "images" / "validation" / f"{at}.png")
        mask = np.zeros((SIDE, SIDE), np.uint8)
        mask[:4], mask[4:20], mask[20:24] = 1, 2, 3  # in the file k means class k - 1, and 0 unlabelled
        Image.fromarray(mask).save(folder / "annotations" / "validation" / f"{at}.png")
    return folder


def explainer(model: bytes) -> Explainer:
    return api.load(model, preprocess=PREPROCESS, threads=1)


class TestSegmentation:
    def test_the_predicted_class(self, tmp_path):
        model = explainer(segmenter().SerializeToString())
        audit = run_audit(model, load(str(ade20k(tmp_path / "data"))), tmp_path / "audit", SETTINGS)

        own, task = OwnModel.open(model), TASKS["segmentation"]
        for row, entry in zip(audit.table.to_pylist(), load(str(tmp_path / "data")).entries, strict=True):
            logits = own.logits(model.prepare(entry.read()).values[None])
            won = np.bincount(logits[0].argmax(axis=0).ravel(), minlength=3)
            assert row["predicted"] == row["target"] == won.argmax() == task.predicted(logits)[0]
            assert row["probability"] == pytest.approx(won.max() / 16)  # the share of its pixels
            assert row["logits_difference"] < 1e-4
            assert row["label"] is None
            assert row["correct"] is None

    def test_the_class_that_covers_most_of_the_mask(self, tmp_path):
        model = explainer(segmenter().SerializeToString())
        audit = run_audit(
            model, load(str(ade20k(tmp_path / "data"))), tmp_path / "audit", replace(SETTINGS, target="label")
        )

        for at, row in enumerate(audit.table.to_pylist()):
            grid = np.maximum(audit.map(at), 0).astype(np.float64)
            assert row["target"] == 1
            assert row["inside_area"] == 0.5
            rows = np.array([0.0, 0.0, 0.0, 0.0])
            rows[:] = [0.5, 1.0, 0.5, 0.0]  # rows 4 to 19 of 32, in cells of 8
            if grid.any():
                assert row["inside"] == pytest.approx((grid * rows[:, None]).sum() / grid.sum(), rel=1e-6)

    def test_an_image_without_a_mask(self, tmp_path):
        data = ade20k(tmp_path / "data")
        (data / "annotations" / "validation" / "1.png").unlink()

        audit = run_audit(
            explainer(segmenter().SerializeToString()),
            load(str(data)),
            tmp_path / "a",
            replace(SETTINGS, target="label"),
        )

        assert "no known class" in audit.table.to_pylist()[1]["error"]


def test_a_model_of_a_fixed_batch(tmp_path):
    """A file that takes one image at a time says the same as one that takes any number."""
    fixed = onnx.load_model_from_string(model_bytes())
    for value in (*fixed.graph.input, *fixed.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    photos = str(pictures(tmp_path / "photos", 5))

    one = run_audit(explainer(fixed.SerializeToString()), load(photos), tmp_path / "one", SETTINGS)
    any_ = run_audit(explainer(model_bytes()), load(photos), tmp_path / "any", SETTINGS)

    for name in ("logit", "check_erased", "check_random", "border"):
        assert one.table[name].to_pylist() == pytest.approx(any_.table[name].to_pylist(), rel=1e-4, abs=1e-6)
    assert max(one.table["logits_difference"].to_pylist()) < 1e-4


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [({"image", "mask"}, {"logits"}, "also needs mask"), ({"image"}, {"scores"}, "no output 'logits'")],
)
def test_a_file_that_cannot_be_run_by_images_alone(tmp_path, monkeypatch, inputs, outputs, message):
    """The proof runs the file as it is; where it cannot, the run ends before it begins."""
    model = explainer(model_bytes())
    monkeypatch.setattr(
        type(model.model), "open_file", lambda _self: SimpleNamespace(inputs=inputs, outputs=outputs)
    )  # fmt: skip

    with pytest.raises(ModelError, match=message):
        run_audit(model, load(str(pictures(tmp_path / "photos", 3))), tmp_path / "audit", SETTINGS)
    assert not list((tmp_path / "audit" / "parts").iterdir())
