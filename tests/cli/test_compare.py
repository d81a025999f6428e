"""`compare` on the command line: a file with itself, with another, two methods, two audits, and policies."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import gradskip_onnx
from gradskip_onnx.demo import demo_model
from tests.support.command_line import fails, run
from tests.support.evaluation_data import model_bytes, pictures

pytest.importorskip("pyarrow")
pytest.importorskip("sklearn")

QUICK = ("--method", "grad-cam")
FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("comparisons")


@pytest.fixture(scope="module")
def reseeded(folder):
    """The demo model with random weights in place of those it has learnt."""
    model, rng = onnx.load(demo_model()), np.random.default_rng(0)
    for weights in model.graph.initializer:
        values = numpy_helper.to_array(weights)
        if values.dtype == np.float32 and values.ndim > 1:
            drawn = rng.normal(values.mean(), values.std(), values.shape).astype(np.float32)
            weights.CopyFrom(numpy_helper.from_array(drawn, weights.name))
    path = folder / "reseeded.onnx"
    onnx.save(model, path)
    return path


def findings(folder) -> dict[str, dict[str, float]]:
    document = json.loads((folder / "comparison.json").read_text())
    return {one["name"]: one["overall"] for one in document["findings"]}


def test_a_file_agrees_with_itself_exactly(folder):
    result = run("compare", demo_model(), demo_model(), "planted:8", *QUICK, "-o", folder / "same")

    assert result.exit_code == 0, result.output
    found = findings(folder / "same")
    assert found["flips"]["value"] == 0
    assert all(found[name]["value"] == 1.0 for name in ("spearman", "iou", "ndcg"))
    assert {path.name for path in (folder / "same").iterdir()} == {
        "a", "b", "comparison.csv", "comparison.html", "comparison.json", "comparison.parquet",
    }  # fmt: skip


@pytest.fixture(scope="module")
def disagreement(folder, reseeded):
    (folder / "policy.toml").write_text("[findings.spearman]\nmin = 0.9\n[findings.flips]\nmax = 0.05")
    return run("compare", demo_model(), reseeded, "planted:12", *QUICK, "-o", folder / "other",
               "--policy", folder / "policy.toml")  # fmt: skip


def test_a_model_with_other_weights_violates_the_policy(folder, disagreement):
    assert disagreement.exit_code == 5, disagreement.output
    violations = json.loads((folder / "other" / "violations.json").read_text())["violations"]
    assert {one["rule"] for one in violations} == {"findings.spearman.min", "findings.flips.max"}
    assert "error: policy: flips is" in disagreement.stderr
    page = (folder / "other" / "comparison.html").read_text()
    assert "</span>Fails</p>" in page
    assert page.count("data:image/jpeg") == 36  # twelve images, and both maps of each


def test_both_explain_the_class_of_the_first(folder, disagreement):
    first, second = (gradskip_onnx.read_audit(folder / "other" / side).table for side in "ab")

    assert disagreement.exit_code == 5
    assert second["target"].to_pylist() == first["predicted"].to_pylist()
    assert second["predicted"].to_pylist() != first["predicted"].to_pylist()
    assert second["inside"].null_count == 12  # boxes and masks are those of the label


def test_each_explains_its_own_class_if_asked(folder, reseeded):
    result = run("compare", demo_model(), reseeded, "planted:6", *QUICK, "--own-class", "-o", folder / "own")

    assert result.exit_code == 0, result.output
    second = gradskip_onnx.read_audit(folder / "own" / "b").table
    assert second["target"].to_pylist() == second["predicted"].to_pylist()
    assert "each map explains its own" in result.stdout
    assert json.loads((folder / "own" / "comparison.json").read_text())["same_classes_explained"] is False


def test_two_methods(folder):
    result = run("compare", demo_model(), demo_model(), "planted:6", "--method-a", "grad-cam", "--method-b",
                 "rollout", "-o", folder / "methods")  # fmt: skip

    assert result.exit_code == 0, result.output
    assert "vit.onnx, grad-cam" in result.stdout
    assert findings(folder / "methods")["flips"]["value"] == 0
    assert findings(folder / "methods")["spearman"]["value"] < 1


def test_two_audits_need_no_data_and_no_model(folder, disagreement):
    assert disagreement.exit_code == 5
    result = run("compare", folder / "other" / "a", folder / "other" / "b", "-o", folder / "audits")

    assert result.exit_code == 0, result.output
    assert findings(folder / "audits") == findings(folder / "other")
    assert not (folder / "audits" / "a").exists()
    assert "data:image/jpeg" in (folder / "audits" / "comparison.html").read_text()  # the maps are there


def test_an_audit_against_a_model(folder, disagreement):
    assert disagreement.exit_code == 5
    result = run("compare", folder / "other" / "a", demo_model(), "planted:12", *QUICK, "-o", folder / "mixed")

    assert result.exit_code == 0, result.output
    assert findings(folder / "mixed")["spearman"]["value"] == 1.0


def test_a_private_audit_against_a_model_names_no_image(folder):
    """The second side is private too: its images are found by the hashes of their names."""
    result = run("audit", demo_model(), "planted:4", *QUICK, "--privacy", "-o", folder / "private")
    assert result.exit_code == 0, result.output
    result = run("compare", folder / "private", demo_model(), "planted:4", *QUICK, "-o", folder / "unnamed")

    assert result.exit_code == 0, result.output
    assert findings(folder / "unnamed")["spearman"] == {"value": 1.0, "low": 1.0, "high": 1.0, "count": 4}
    written = b"".join(path.read_bytes() for path in sorted((folder / "unnamed").rglob("*")) if path.is_file())
    assert b"scene/" not in written
    result = run("compare", folder / "unnamed" / "b", folder / "same" / "a", "-o", folder / "half")
    assert "4 explained by both, 4 not" in result.stdout
    assert "scene/" not in (folder / "half" / "comparison.csv").read_text()


def test_images_that_failed_have_an_exit_code(folder):
    data = pictures(folder / "broken", 3)
    (data / "01.png").write_bytes(b"no image")
    result = run("compare", demo_model(), demo_model(), data, *QUICK, "-o", folder / "failed")

    assert result.exit_code == 6, result.output
    assert "images    2 explained by both, 1 not" in result.stdout
    assert result.stderr.count("01.png: not an image") == 1


def test_segmentation_explains_the_classes_of_the_first(folder):
    model = FIXTURES / "segformer.onnx"

    result = run("compare", model, model, "planted:3", *QUICK, "-o", folder / "segmentation")

    assert result.exit_code == 0, result.output
    assert findings(folder / "segmentation")["spearman"]["value"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((str(demo_model()), str(demo_model())), "name the images to explain"),
        ((str(demo_model()), ".", "planted:2"), "neither a model file nor the folder of an audit"),
        ((str(demo_model()), "none.onnx", "planted:2"), "none.onnx"),
        (
            (str(demo_model()), str(demo_model()), "planted:2", "--method-b", "grad-cam,rollout"),
            "got 2 methods",
        ),
    ],
)
def test_mistakes_are_one_line(folder, arguments, text):
    fails(run("compare", *arguments, "-o", folder / "never"), 2, text)


def test_what_cannot_be_compared_is_not_audited(tmp_path):
    other = tmp_path / "five.onnx"
    other.write_bytes(model_bytes())

    fails(run("compare", demo_model(), other, "planted:2", "-o", tmp_path / "never"), 2, "the number of classes is 8")
    assert not (tmp_path / "never").exists()
    policy = tmp_path / "class.toml"
    policy.write_text('[findings.flips]\nmax = 0\nclasses = ["unicorn"]')
    same = (demo_model(), demo_model(), "planted:2", "-o", tmp_path / "never", "--policy", policy)
    fails(run("compare", *same), 2, "policy: findings.flips: no class is called 'unicorn'")
    assert not (tmp_path / "never").exists()


def test_a_policy_for_audits_does_not_fit(folder):
    (folder / "audit.toml").write_text("[clusters]\nminority = 0")

    fails(run("compare", demo_model(), demo_model(), "planted:2", "--policy", folder / "audit.toml"), 2, "'clusters'")
