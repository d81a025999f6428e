"""An export is compared with torch on the spot: what is reported, and what happens when the file is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("transformers")

import torch
from gradskip_onnx.exporters import load, pipeline, verify
from gradskip_onnx.exporters.oracle import seed
from gradskip_onnx.exporters.request import ExportRequest

from gradskip_onnx.errors import VerificationError
from tests.support.command_line import run

from .small_models import SIZE, VIT

pytestmark = pytest.mark.torch


def test_existing_output_needs_force(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"mine")
    result = run("export", VIT, "-o", path, "--random-weights")

    assert result.exit_code == 2
    assert "--force" in result.output
    assert path.read_bytes() == b"mine"


def test_report_shows_the_largest_differences(whole):
    for word in ("logits", "attention", "output", "gradient", "1e-04", "ok"):
        assert word in whole[1].stdout
    assert "FAILED" not in whole[1].stdout


def test_failed_check_exits_with_5_and_keeps_the_file(tmp_path, monkeypatch):
    """The torch model is changed between tracing and verifying; the file is then wrong for it."""
    honest = verify.verify

    def disturbed(path, exportable):
        with torch.no_grad():
            exportable.module.blocks[5].mlp.fc1.weight *= 1.5
        return honest(path, exportable)

    monkeypatch.setattr(pipeline, "verify", disturbed)
    path = tmp_path / "m.onnx"
    result = run("export", VIT, "-o", path, "--random-weights", "--size", 32, "--opset", 17)

    assert result.exit_code == 5
    assert "does not agree with the torch model" in result.output
    assert "FAILED" in result.output
    onnx.checker.check_model(onnx.load(path))


def test_wrong_gradient_alone_is_noticed(whole, small_vit, tmp_path):
    """A file whose values are right and whose gradient at one block is off by a thousandth."""
    model = onnx.load(whole[0])
    (switch,) = [node for node in model.graph.node if node.op_type == "If"]
    then = next(a.g for a in switch.attribute if a.name == "then_branch")
    position = list(switch.output).index("gradskip/block04/gradient")
    inner = then.output[position].name
    then.node.append(onnx.helper.make_node("Mul", [inner, "test/scale"], ["test/scaled"]))
    then.initializer.append(onnx.numpy_helper.from_array(np.array(1.001, np.float32), "test/scale"))
    then.output[position].name = "test/scaled"
    onnx.save(model, tmp_path / "off.onnx")
    failed = [d for d in verify.verify(tmp_path / "off.onnx", small_vit) if not d.passes]

    assert [(d.quantity, d.where) for d in failed] == [("gradient", "block 4")]
    assert failed[0].relative == pytest.approx(1e-3, rel=0.05)


def test_difference_never_passes_on_nan_or_shape():
    good = np.ones((2, 3))
    table = [
        (np.full((2, 3), np.nan), good, False),
        (np.ones((3, 2)), good, False),
        (good * (1 + 2e-4), good, False),
        (good * (1 + 5e-5), good, True),
        (np.zeros(2), np.zeros(2), True),
        (np.ones(2), np.zeros(2), False),
    ]
    for ours, theirs, passes in table:
        assert verify.difference("logits", "", ours, theirs, 1e-4).passes is passes


def test_report_raises_for_the_worst_failure(tmp_path):
    fine = verify.Difference("logits", "", 1e-7, 1e-7, 1e-4)
    bad = replace(fine, quantity="gradient", where="block 3", relative=0.5)
    report = pipeline.Report("m", (tmp_path / "m.onnx",), 17, SIZE, 0, (fine, bad))
    with pytest.raises(VerificationError, match=r"gradient block 3 differs by 5.0e-01"):
        report.require_sound()


def test_segmentation_score_is_a_mean_over_the_pixels_of_the_class():
    logits = np.zeros((2, 3, 1, 4), np.float32)
    logits[0, 1, 0, :2] = 5  # two pixels of class 1; class 2 has none
    weights = seed(logits, np.array([1, 2]))

    assert weights[0, 1].ravel().tolist() == [0.5, 0.5, 0, 0]
    assert weights[1, 2].ravel().tolist() == [0.25] * 4
    assert weights.sum() == 2


def test_the_torch_model_is_left_as_it_was(folder):
    """Also by an export in half precision and the check in double, which are done on copies."""
    exportable = load(ExportRequest(VIT, size=(32, 32), random_weights=True, dtype="float16"))
    before = {name: value.clone() for name, value in exportable.module.state_dict().items()}
    onnx.save(pipeline._traced(exportable, 17, folder), folder / "untouched.onnx")
    differences = verify.verify(folder / "untouched.onnx", exportable)
    after = exportable.module.state_dict()

    assert all(difference.passes for difference in differences)
    assert after.keys() == before.keys()
    assert [n for n in before if after[n].dtype != before[n].dtype or not torch.equal(after[n], before[n])] == []
    assert all(parameter.grad is None for parameter in exportable.module.parameters())
