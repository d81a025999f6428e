"""Every layout of data through the command: what is known of its images reaches the metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.support.command_line import fails, run
from tests.support.dataset_files import FISH, SHARK, medmnist, voc
from tests.support.evaluation_data import FLAGS, SIDE, model_bytes
from tests.support.models import segmenter


def evaluate(model: bytes, data: Path | str, place: Path, metrics: str, *more: str) -> dict[str, Any]:
    (place / "model.onnx").write_bytes(model)
    command = ["evaluate", place / "model.onnx", data, "--methods", "gradskip", "--metrics", metrics, *FLAGS, *more]
    command += ["-o", place / "out", "--threads", "1", "--resamples", "100", "--json", "--pictures", "0"]
    found = run(*command)
    assert found.exit_code == 0, found.output
    document: dict[str, Any] = json.loads(found.stdout)
    return document


def cells(document: dict[str, Any]) -> dict[str, Any]:
    results: dict[str, Any] = document["methods"][0]["results"]
    return results


def noise(path: Path, seed: int, side: int = SIDE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)).save(path)
    return path


def test_imagenet_boxes(tmp_path):
    """One box in a corner counts, one over the whole image is too large, one image has none."""
    data = tmp_path / "data"
    for at in range(3):
        noise(data / "Data" / "val" / f"ILSVRC2012_val_{at}.JPEG", at)
    boxes = data / "Annotations" / "val"
    boxes.mkdir(parents=True)
    small, large = (SHARK, (0, 0, SIDE // 2, SIDE // 2)), (FISH, (0, 0, SIDE, SIDE))
    (boxes / "ILSVRC2012_val_0.xml").write_text(voc(small, size=(SIDE, SIDE)))
    (boxes / "ILSVRC2012_val_1.xml").write_text(voc(large, size=(SIDE, SIDE)))
    (data / "LOC_val_solution.csv").write_text(f"ImageId,PredictionString\nILSVRC2012_val_2,{FISH} 0 0 5 5\n")
    (data / "LOC_synset_mapping.txt").write_text(f"{FISH} fish\n{SHARK} shark\n")
    document = evaluate(model_bytes(), data, tmp_path, "pointing-game,insertion[steps=2]", "--target", "label")

    assert document["data"]["layout"] == "imagenet"
    assert cells(document)["pointing-game"]["found"]["count"] == 1
    assert cells(document)["pointing-game"]["excluded"] == 2
    assert cells(document)["insertion[steps=2]"]["found"]["count"] == 3


def test_medmnist(tmp_path):
    document = evaluate(model_bytes(), medmnist(tmp_path / "x.npz"), tmp_path, "deletion[steps=2]", "--target", "label")

    assert document["data"] == {"where": str(tmp_path / "x.npz"), "layout": "medmnist", "images": 3}
    assert cells(document)["deletion[steps=2]"]["found"]["count"] == 3


def test_planted_scenes_need_the_names_of_their_classes(tmp_path):
    (tmp_path / "model.onnx").write_bytes(model_bytes())
    found = run("evaluate", tmp_path / "model.onnx", "planted:2", "--metrics", "pixel-accuracy", *FLAGS)

    fails(found, 2, "the model knows no class of planted:2 by name; give --labels")  # no star, hence no mask of one


@pytest.mark.parametrize("target", ["label", "predicted"])
def test_ade20k(tmp_path, target):
    """Masks meet a segmentation: with `label`, each class that is there and predicted is a case of its own."""
    data = tmp_path / "data"
    noise(data / "images" / "validation" / "ADE_val_1.png", 1)
    mask = np.zeros((SIDE, SIDE), np.uint8)
    mask[:8], mask[8:16], mask[16:24] = 1, 2, 3
    (data / "annotations" / "validation").mkdir(parents=True)
    Image.fromarray(mask).save(data / "annotations" / "validation" / "ADE_val_1.png")
    model = bytes(segmenter().SerializeToString())
    document = evaluate(model, data, tmp_path, "pixel-accuracy,miou,insertion[steps=2]", "--target", target)

    records = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    explained = {case["target"] for record in records for case in record["cases"]}
    assert explained <= {0, 1, 2}
    assert len(explained) == 1 if target == "predicted" else len(explained) > 1
    assert cells(document)["miou"]["found"]["count"] == len(explained)
    assert 0 <= cells(document)["pixel-accuracy"]["found"]["value"] <= 1
