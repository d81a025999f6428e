"""MedMNIST's arrays, ADE20K's masks, and scenes with planted evidence."""

import zipfile

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx.datasets import load
from gradskip_onnx.datasets.ade20k import read_areas
from gradskip_onnx.datasets.entry import UNLABELLED
from gradskip_onnx.demo.scenes import CLASSES, scene
from gradskip_onnx.errors import InputError
from tests.support.dataset_files import labels, medmnist, picture


def test_medmnist(tmp_path):
    path = medmnist(tmp_path / "bloodmnist.npz")
    found = load(str(path))
    assert found.layout == "medmnist"
    assert labels(found) == {"test/0": 2, "test/1": 0, "test/2": 1}
    with np.load(path) as arrays:
        np.testing.assert_array_equal(np.asarray(found.entries[1].read()), arrays["test_images"][1])
        grey = np.asarray(load(str(path), split="val").entries[0].read())
        np.testing.assert_array_equal(grey, np.repeat(arrays["val_images"][0][..., None], 3, axis=2))
    assert len({entry.digest() for entry in found.entries}) == 3


BAD_ARRAYS = {
    "floats": ({"test_images": np.zeros((3, 28, 28))}, "bytes are expected"),
    "several labels": ({"test_labels": np.zeros((3, 14), np.uint8)}, "one class an image"),
    "objects": ({"test_labels": np.array([{}, {}, {}], object)}, "not a readable"),
}


@pytest.mark.parametrize(("arrays", "message"), BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_bad_arrays_are_refused(tmp_path, arrays, message):
    with pytest.raises(InputError, match=message):
        load(str(medmnist(tmp_path / "x.npz", **arrays)))


def test_archives_that_are_none(tmp_path):
    (tmp_path / "prose.npz").write_text("no archive")
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as archive:
        archive.writestr("readme.txt", "nothing here")
    for name, message in (("prose.npz", "not a readable"), ("other.npz", "no array 'test_images'")):
        with pytest.raises(InputError, match=message):
            load(str(tmp_path / name))


def test_ade20k(tmp_path):
    picture(tmp_path / "images" / "validation" / "ADE_val_1.jpg", (2, 3))
    picture(tmp_path / "images" / "validation" / "ADE_val_2.jpg", (2, 3))
    picture(tmp_path / "images" / "training" / "ADE_train_1.jpg", (2, 3))
    (tmp_path / "annotations" / "validation").mkdir(parents=True)
    mask = np.array([[0, 1, 150], [2, 2, 0]], np.uint8)
    Image.fromarray(mask).save(tmp_path / "annotations" / "validation" / "ADE_val_1.png")
    found = load(str(tmp_path))
    assert found.layout == "ade20k"
    assert [entry.id for entry in found.entries] == ["validation/ADE_val_1.jpg", "validation/ADE_val_2.jpg"]
    assert found.entries[0].areas is not None
    np.testing.assert_array_equal(found.entries[0].areas(), [[UNLABELLED, 0, 149], [1, 1, UNLABELLED]])
    assert found.entries[1].areas is None
    assert "1 of 2 images have no mask" in found.warnings[0]
    assert len(load(str(tmp_path), split="training").entries) == 1


def test_palette_masks_are_read_by_number(tmp_path):
    image = Image.fromarray(np.array([[3, 0]], np.uint8), mode="P")
    image.putpalette([9, 9, 9] * 256)
    image.save(tmp_path / "m.png")
    np.testing.assert_array_equal(read_areas(tmp_path / "m.png"), [[2, UNLABELLED]])


def test_pictures_of_masks_are_refused(tmp_path):
    with pytest.raises(InputError, match="one number a pixel"):
        read_areas(picture(tmp_path / "colours.png"))
    (tmp_path / "prose.png").write_text("no image")
    with pytest.raises(InputError, match="PNG mask"):
        read_areas(tmp_path / "prose.png")


def test_planted_scenes():
    found = load("planted:3:40")
    assert found.layout == "planted"
    for entry, seed in zip(found.entries, (40, 41, 42), strict=True):
        made = scene(seed)
        assert entry.label == CLASSES[made.label]
        assert entry.outline is not None
        np.testing.assert_array_equal(np.asarray(entry.read()), made.image)
        np.testing.assert_array_equal(entry.outline(), made.mask)
    assert len(load("planted").entries) == 100
