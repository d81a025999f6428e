"""`explain` on a segmentation: regions and shares of pixels."""

import json

import numpy as np
import pytest
from PIL import Image

from tests.support.command_line import SETTINGS, fails, run


def test_regions_of_a_segmentation(place, tmp_path):
    mask = np.zeros((48, 64), np.uint8)
    mask[24:, 32:] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    common = ("explain", place / "seg.onnx", place / "photos" / "p0.png", "--target", "1", "--json", *SETTINGS)
    scores = []
    for index, region in enumerate((None, "40,30", tmp_path / "mask.png")):
        options = () if region is None else ("--region", region)
        result = run(*common, "-o", tmp_path / str(index), *options)
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        assert document["task"] == "segmentation"
        assert document["region"] == (None if region is None else str(region))
        scores.append(document["grid"]["scores"])
    assert scores[0] != scores[1] != scores[2] != scores[0]


BAD_REGIONS = [
    ("400,30", ["400,30", "outside"]),
    ("missing.png", ["missing.png"]),
    ("photos/p1.png", ["mask"]),
    ("black.png", ["black.png", "empty"]),
]


@pytest.mark.parametrize(("region", "texts"), BAD_REGIONS, ids=str)
def test_bad_regions(place, tmp_path, monkeypatch, region, texts):
    monkeypatch.chdir(place)
    Image.new("L", (64, 48)).save(place / "black.png")
    fails(run("explain", "seg.onnx", "photos/p0.png", "--region", region, "-o", tmp_path), 2, *texts)


def test_a_segmentation_reports_shares_of_pixels(place, tmp_path):
    result = run("explain", place / "seg.onnx", place / "photos" / "p0.png", "-o", tmp_path, "--target", "top5")
    assert result.exit_code == 0, result.output
    assert "share of pixels" in result.stdout
    present = [json.loads(path.read_text())["target"] for path in tmp_path.glob("*.json")]
    assert sum(entry["probability"] for entry in present) == pytest.approx(1.0)
