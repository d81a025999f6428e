"""`explain` on folders, patterns and batches of images."""

import json

import numpy as np
import pytest
from PIL import Image

from tests.support.command_line import SETTINGS, run

BATCHED = 1e-5  # float32 sums inside ONNX Runtime depend on the batch size

MANY = [["photos"], ["photos/*.png"], ["photos/p0.png", "photos/p1.png", "photos/p2.png"], ["photos", "photos/p1.png"]]


@pytest.mark.parametrize("names", MANY, ids=str)
def test_folders_and_patterns(place, tmp_path, names):
    paths = [place / name for name in names]
    result = run("explain", place / "vit.onnx", *paths, "-o", tmp_path, *SETTINGS)
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.glob("*.png")} == {"p0.png", "p1.png", "p2.png"}
    lines = [line for line in result.stdout.splitlines() if " -> " in line]
    assert [line.split(":")[0] for line in lines] == ["p0.png", "p1.png", "p2.png"]


def test_a_batch_equals_its_images(place, tmp_path):
    for size in (1, 2):
        assert run("explain", place / "vit.onnx", place / "photos", "-o", tmp_path / str(size), "--batch-size", size,
                   *SETTINGS).exit_code == 0  # fmt: skip
    for name in ("p0", "p1", "p2"):
        single, joint = (np.load(tmp_path / str(size) / f"{name}.npy") for size in (1, 2))
        np.testing.assert_allclose(joint, single, atol=BATCHED * single.max())


@pytest.mark.parametrize("size", [1, 4])
def test_one_bad_image_does_not_stop_the_rest(place, tmp_path, size):
    bad = [place / "corrupt.png", place / "missing.png"]
    result = run("explain", place / "vit.onnx", place / "photos" / "p0.png", *bad, place / "photos" / "p1.png",
                 "-o", tmp_path, "--json", "--batch-size", size, *SETTINGS)  # fmt: skip
    assert result.exit_code == 6
    assert {path.name for path in tmp_path.glob("*.json")} == {"p0.json", "p1.json"}
    for path in bad:
        assert f"error: {path}" in result.stderr
    assert "2 of 4 images failed" in result.stderr
    documents = [json.loads(line) for line in result.stdout.splitlines()]
    assert ["error" in entry for entry in documents] == [False, True, True, False]


def test_all_images_failing_is_6_too(place, tmp_path):
    result = run("explain", place / "vit.onnx", place / "corrupt.png", place / "prose.png", "-o", tmp_path)
    assert result.exit_code == 6
    assert "2 of 2 images failed" in result.stderr


def test_same_stem_twice(place, tmp_path):
    (tmp_path / "b").mkdir()
    Image.new("RGB", (20, 20), "red").save(tmp_path / "b" / "p0.jpg")
    result = run("explain", place / "vit.onnx", place / "photos" / "p0.png", tmp_path / "b" / "p0.jpg",
                 "-o", tmp_path / "o")  # fmt: skip
    assert result.exit_code == 0
    assert np.load(tmp_path / "o" / "p0.npy").shape == (48, 64)
    assert np.load(tmp_path / "o" / "p0-2.npy").shape == (20, 20)
