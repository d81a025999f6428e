"""Audits of a dynamically quantised file, whose answer to an image hangs on the others in its batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import QuantType, quantize_dynamic

from gradskip_onnx import api
from gradskip_onnx.api import Explainer
from gradskip_onnx.audit.own_model import OwnModel
from gradskip_onnx.audit.parts import part_path
from gradskip_onnx.audit.reading import Audit
from gradskip_onnx.audit.run import run_audit
from gradskip_onnx.audit.settings import AuditSettings, CheckSettings
from gradskip_onnx.datasets import load
from gradskip_onnx.demo import demo_model
from gradskip_onnx.evidence.replay import replay
from gradskip_onnx.methods import choose_method
from tests.audit.runs import rows_of

pytestmark = pytest.mark.slow
DATA = "planted:13"
SETTINGS = AuditSettings(  # a batch would reach into the second part if it were not cut there
    method=choose_method("grad-cam"), batch_size=4, part_size=5, check=CheckSettings(draws=1)
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Explainer:
    path = tmp_path_factory.mktemp("dynamic") / "int8.onnx"
    quantize_dynamic(demo_model(), path, weight_type=QuantType.QInt8, reduce_range=True)
    return api.load(path, threads=1)


@pytest.fixture(scope="module")
def audit(model: Explainer, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    return run_audit(model, load(DATA), tmp_path_factory.mktemp("audit"), SETTINGS)


def test_the_batch_matters(model: Explainer):
    images = np.stack([model.prepare(entry.read()).values for entry in load(DATA).entries])
    own = OwnModel.open(model)

    assert np.abs(own.logits(images[:4])[0] - own.logits(images[:1])[0]).max() > 1e-2


def test_the_file_is_asked_about_the_batch_that_was_explained(
    model: Explainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Not by the numbers: a value at the border of two steps is now and then rounded to the other one."""
    images = np.stack([model.prepare(entry.read()).values for entry in load(DATA).entries])
    asked, ask = list[np.ndarray](), OwnModel.logits

    def recorded(own: OwnModel, batch: np.ndarray) -> np.ndarray:
        asked.append(batch)
        return ask(own, batch)

    monkeypatch.setattr(OwnModel, "logits", recorded)

    run_audit(model, load(DATA), tmp_path, SETTINGS)

    for start, end in ((0, 4), (4, 5), (5, 9), (9, 10), (10, 13)):
        assert any(np.array_equal(batch, images[start:end]) for batch in asked)


def test_a_part_made_again_is_the_same(model: Explainer, audit: Audit, tmp_path: Path):
    again = run_audit(model, load(DATA), tmp_path, SETTINGS)
    (tmp_path / part_path(1)).unlink()

    assert rows_of(run_audit(model, load(DATA), tmp_path, SETTINGS)) == rows_of(again) == rows_of(audit)


def test_a_replay_runs_the_batch_again(model: Explainer, audit: Audit):
    """Images 1, 3 and 4: two of the first batch, and one that is alone in the second."""
    found = [*replay(audit, model, load(DATA), [1, 3, 4])]

    assert [one.wrong for one in found] == [(), (), ()]
    assert max(one.logit or 0.0 for one in found) < 1e-3
