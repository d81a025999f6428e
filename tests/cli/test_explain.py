"""`explain` on one image: its files, the class, the settings and where they come from."""

import json
from pathlib import Path

import numpy as np
import pytest

from gradskip_onnx import api
from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.selfcontained.describe import annotate
from tests.support import models
from tests.support.command_line import SETTINGS, fails, run


def test_one_image(place, tmp_path):
    image = place / "photos" / "p0.png"
    result = run("explain", place / "vit.onnx", image, "-o", tmp_path, "--labels", place / "labels.txt", *SETTINGS)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p0.json", "p0.npy", "p0.png"]
    settings = {"crop": 1.0, "mean": (0.5,) * 3, "std": (0.5,) * 3}
    expected = api.load(place / "vit.onnx", preprocess=settings, low_memory=True).explain(image)
    np.testing.assert_array_equal(np.load(tmp_path / "p0.npy"), expected.map)
    document = json.loads((tmp_path / "p0.json").read_text())
    assert document["target"]["index"] == expected.target.index
    assert document["preprocess"]["mean"] == [0.5, 0.5, 0.5]
    assert document["model"]["sha256"] == expected.model_sha256
    assert np.shape(document["grid"]["scores"]) == (32, 32)  # pixels
    assert (document["method"], document["score"]) == ("gradskip+", "the method's own")
    assert "by gradskip+" in result.stdout
    for text in ("CPUExecutionProvider", "probability", "ant (0)", "bee (1)", "cat (2)", "dog, hound (3)", "elk (4)"):
        assert text in result.stdout
    assert str(tmp_path / "p0.png") in result.stdout
    assert result.stderr == ""
    assert "\x1b" not in result.stdout


TARGETS = [("3", 3), ("dog, hound", 3), ("hound", 3), ("BEE", 1)]


@pytest.mark.parametrize(("text", "index"), TARGETS)
def test_target_by_number_and_by_name(place, tmp_path, text, index):
    result = run(
        "explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path, "--target", text,
        "--labels", place / "labels.txt", "--json", *SETTINGS,
    )  # fmt: skip
    assert json.loads(result.stdout)["target"]["index"] == index


def test_top5_writes_a_map_for_each_class(place, tmp_path):
    result = run(
        "explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path, "--target", "top5",
        "--labels", place / "labels.txt", "--json", *SETTINGS,
    )  # fmt: skip
    documents = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted(entry["target"]["index"] for entry in documents) == [0, 1, 2, 3, 4]
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "p0.0_ant.png", "p0.1_bee.png", "p0.2_cat.png", "p0.3_dog.png", "p0.4_elk.png", "p0.top5.png"
    }  # fmt: skip
    maps = [np.load(entry["files"]["npy"]) for entry in documents]
    assert not np.array_equal(maps[0], maps[1])
    fails(
        run("explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path, "--target", "top5",
            "--labels", place / "labels.txt", *SETTINGS), 2, "exists", "--force",
    )  # fmt: skip


def test_json_is_one_document_and_nothing_else(place, tmp_path):
    result = run("explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path, "--json")
    document = json.loads(result.stdout)
    assert document["format"] == 1
    assert set(document["files"]) == {"png", "npy", "json"}
    assert Path(document["files"]["png"]).is_file()
    assert "assumed mean 0.485" in result.stderr


def test_existing_output_needs_force(place, tmp_path):
    command = ("explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path)
    assert run(*command).exit_code == 0
    fails(run(*command), 2, "p0.png exists", "--force")
    assert run(*command, "--force").exit_code == 0


def test_method_options_reach_the_method(place, tmp_path):
    common = ("explain", place / "vit.onnx", place / "photos" / "p0.png", "--json", *SETTINGS)
    first = json.loads(run(*common, "-o", tmp_path / "a", "--method", "gradskip").stdout)
    result = run(*common, "-o", tmp_path / "b", "--alpha", "0.9", "-O", "gate=branch", "-O", "renorm_rows=yes")
    second = json.loads(result.stdout)
    assert second["method"] == "gradskip"  # alpha is its option, and no method was named
    assert (first["options"]["alpha"], second["options"]["alpha"]) == (0.5, 0.9)
    assert second["options"]["gate"] == "branch"
    assert second["options"]["renorm_rows"] is True
    assert first["grid"]["scores"] != second["grid"]["scores"]


def test_settings_beside_the_model(place, tmp_path):
    (tmp_path / "model.onnx").write_bytes((place / "vit.onnx").read_bytes())
    half = {"do_normalize": True, "size": 32, "image_mean": [0.4] * 3, "image_std": [0.5] * 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(half))
    (tmp_path / "config.json").write_text(json.dumps({"id2label": dict(enumerate("abcde"))}))
    command = ("explain", tmp_path / "model.onnx", place / "photos" / "p0.png", "--target", "c", "--json")
    result = run(*command, "-o", tmp_path / "a")
    document = json.loads(result.stdout)
    assert document["preprocess"]["mean"] == [0.4] * 3
    assert document["preprocess"]["source"] == "preprocessor_config.json"
    assert document["target"] == document["target"] | {"index": 2, "label": "c"}
    assert result.stderr == ""
    result = run(*command, "-o", tmp_path / "b", "--mean", "0.1", "0.2", "0.3")
    document = json.loads(result.stdout)
    assert document["preprocess"]["mean"] == [0.1, 0.2, 0.3]
    assert document["preprocess"]["std"] == [0.5] * 3
    assert "command line" in document["preprocess"]["source"]


def test_settings_and_labels_from_the_file_itself(place, tmp_path):
    model = annotate(models.vit(), preprocess=Preprocess(size=(32, 32), crop=0.5, source="its maker"), labels="abcde")
    (tmp_path / "told.onnx").write_bytes(model.SerializeToString())
    result = run("explain", tmp_path / "told.onnx", place / "photos" / "p0.png", "-o", tmp_path / "o", "--json",
                 "--target", "d", "--score", "probability", "--threads", "1", "--method", "gradskip")  # fmt: skip
    document = json.loads(result.stdout)
    assert document["preprocess"]["crop"] == 0.5
    assert document["preprocess"]["source"] == "its maker"
    assert document["target"]["index"] == 3
    assert document["score"] == "probability"
    assert result.stderr == ""
    # half of the short side of 64x48, centred, but for the rounding of the resized width
    assert document["image"]["seen_box"] == pytest.approx([20.0, 12.0, 44.0, 36.0], abs=0.5)
    values = np.load(document["files"]["npy"])
    assert (values[:12] == 0).all()
    assert (values[12:36, 20:44] > 0).all()


def test_quiet_and_verbose(place, tmp_path):
    command = ("explain", place / "vit.onnx", place / "photos" / "p0.png", "-o", tmp_path, "--force")
    assert "warning: preprocessing" in run(*command).stderr
    assert run(*command, "--quiet").stderr == ""
    assert "time: " in run(*command, "-v").stderr


def test_interruption_is_130(place, tmp_path, monkeypatch):
    def interrupted(*_args: object, **_kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "load", interrupted)
    result = run("explain", place / "vit.onnx", place / "photos", "-o", tmp_path)
    assert result.exit_code == 130
    assert result.stderr == "error: interrupted\n"
