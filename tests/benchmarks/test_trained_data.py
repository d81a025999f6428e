"""Data of the models trained on photographs: sprites, windows whose class is beyond doubt, folders for `evaluate`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks.trained import augment, bccd, cifar10
from benchmarks.trained.evaluation_folder import annotation, write_folder
from benchmarks.trained.labelled import Labelled
from gradskip_onnx.datasets.entry import Box
from gradskip_onnx.datasets.table import load

SIDE = bccd.SIDE
Boxes = Sequence[Box]


def write_package(folder: Path, count: int = 20) -> None:
    """A package of small sprites: the pixel (y, x) of image i is (i, y, x)."""
    pixels = np.empty((count, 32, 32, 3), np.uint8)
    pixels[..., 0] = np.arange(count)[:, None, None]
    pixels[..., 1] = np.arange(32)[None, :, None]
    pixels[..., 2] = np.arange(32)[None, None, :]
    for sprites, labels in cifar10.SPLITS.values():
        for name in sprites:
            Image.fromarray(pixels.reshape(count, 1024, 3)).save(folder / name)
        (folder / labels).write_text(json.dumps([index % 10 for index in range(count)] * len(sprites)))


def boxes_of(white: Boxes = (), platelets: Boxes = (), red: Boxes = ()) -> dict[str, tuple[Box, ...]]:
    return dict(zip(bccd.KINDS, (tuple(white), tuple(platelets), tuple(red)), strict=True))


def photograph(boxes: Mapping[str, tuple[Box, ...]], width: int = 320, height: int = 240) -> bccd.Photograph:
    """Red and green tell where a pixel lies, in steps of two."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = np.arange(width)[None, :] // 2, np.arange(height)[:, None] // 2
    return bccd.Photograph("smear", pixels, boxes)


RED = (10.0, 10.0, 60.0, 60.0)
PLATELET = (100.0, 20.0, 120.0, 40.0)
WHITE = (20.0, 60.0, 100.0, 120.0)  # 29 % of a window at (0, 0)


def test_a_sprite_holds_an_image_in_each_row(tmp_path):
    write_package(tmp_path)
    train, test = (cifar10.read_split(tmp_path, split) for split in ("train", "test"))

    assert train.pixels.shape == (100, 32, 32, 3)
    assert test.pixels[7, 3, 21].tolist() == [7, 3, 21]
    assert test.labels[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert test.names[7] == "test_00007"


def test_a_sprite_of_another_width_and_missing_labels_are_refused(tmp_path):
    write_package(tmp_path)
    (tmp_path / "test_lables.json").write_text("[1, 2]")
    Image.new("RGB", (1000, 3)).save(tmp_path / "data_batch_1.png")

    with pytest.raises(ValueError, match="2 labels for 20 images"):
        cifar10.read_split(tmp_path, "test")
    with pytest.raises(ValueError, match="1000 pixels in a row, expected 1024"):
        cifar10.read_split(tmp_path, "train")


def test_as_many_images_of_each_class_are_shown():
    labels = np.repeat(np.arange(10), 5)[::-1]
    first, second = (cifar10.of_each(labels, start, 2) for start in (0, 2))

    assert Counter(labels[first].tolist()) == Counter(labels[second].tolist()) == dict.fromkeys(range(10), 2)
    assert first.tolist() == sorted(first)
    assert not set(first.tolist()) & set(second.tolist())


@pytest.mark.parametrize(
    ("boxes", "expected"),
    [
        (boxes_of(), None),
        (boxes_of(red=[RED]), "red cells only"),
        (boxes_of(platelets=[PLATELET], red=[RED]), "platelet"),
        (boxes_of(white=[WHITE], red=[RED]), "white cell"),
        (boxes_of(white=[WHITE], platelets=[PLATELET], red=[RED]), None),  # two kinds decide
        (boxes_of(platelets=[(120.0, 20.0, 140.0, 40.0)], red=[RED]), None),  # 40 % of a platelet
        (boxes_of(white=[(-60.0, 0.0, 20.0, 60.0)], red=[RED]), None),  # a quarter of a white cell
        (boxes_of(white=[(-40.0, 0.0, 40.0, 60.0)], red=[RED]), "white cell"),  # half of one
        (boxes_of(white=[(0.0, 0.0, 100.0, 100.0)]), None),  # 61 % of the window
        (boxes_of(red=[(-20.0, 0.0, 30.0, 50.0)]), None),  # 60 % of a red cell
        (boxes_of(white=[(128.0, 0.0, 200.0, 80.0)], red=[RED]), "red cells only"),  # beside the window
    ],
)
def test_the_rarest_kind_decides_unless_it_is_in_doubt(boxes, expected):
    label = bccd.decide(boxes, 0, 0)

    assert (None if label is None else bccd.CLASSES[label]) == expected


def test_parts_of_boxes_are_in_pixels_of_the_window():
    assert bccd.inside([(90.0, 30.0, 110.0, 50.0), (0.0, 0.0, 40.0, 40.0)], 100, 40) == [((0, 0, 10, 10), 0.25)]


def test_windows_are_cut_where_they_say():
    smear = photograph(boxes_of(platelets=[(200.0, 100.0, 220.0, 120.0)], red=[(40.0, 60.0, 90.0, 110.0)]))
    windows = bccd.find_windows([smear], 16)
    images = bccd.cut([smear], windows)

    assert {bccd.CLASSES[window.label] for window in windows} == {"platelet", "red cells only"}
    for window, pixels, boxes, name in zip(windows, images.pixels, images.boxes, images.names, strict=True):
        assert pixels.shape == (SIDE, SIDE, 3)
        assert pixels[0, 0, :2].tolist() == [window.left // 2, window.top // 2]
        assert name == f"smear_{window.left:03d}_{window.top:03d}"
        left, top = 200 - window.left, 100 - window.top
        assert boxes == (((left, top, left + 20, top + 20),) if window.label == 1 else ())


def test_windows_come_evenly_from_all_photographs():
    many = [bccd.Window(0, left, 0, label, ()) for left in range(50) for label in range(3)]
    few = [bccd.Window(1, left, 0, label, ()) for left in range(4) for label in range(3)]
    chosen = bccd.spread([*many, *few], 8, np.random.default_rng(0))

    assert len(set(chosen)) == 24
    origins = Counter((window.label, window.photograph) for window in chosen)
    assert origins == {(label, origin): 4 for label in range(3) for origin in (0, 1)}


def test_too_few_windows_are_refused():
    with pytest.raises(ValueError, match="1 windows of class 'white cell', 2 are wanted"):
        bccd.spread([bccd.Window(0, 0, 0, 0, ())], 2, np.random.default_rng(0))


def test_a_smear_is_halved_with_its_boxes_and_points_are_left_out(tmp_path):
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "ImageSets/Main/test.txt").write_text("a\n")
    Image.new("RGB", (640, 480), "white").save(tmp_path / "JPEGImages/a.jpg")
    annotation("RBC", ((20, 40, 120, 140), (7, 7, 7, 7)), (480, 640)).write(tmp_path / "Annotations/a.xml")
    (smear,) = bccd.read_split(tmp_path, "test")

    assert smear.pixels.shape == (240, 320, 3)
    assert smear.boxes == boxes_of(red=[(10.0, 20.0, 60.0, 70.0)])


def test_images_with_boxes_are_read_back(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 16, 24, 3)).astype(np.uint8)
    boxes = (((1, 2, 3.5, 4),), ((0, 0, 24, 16), (5, 6, 7, 8)), ())
    images = Labelled(pixels, np.array([1, 0, 2]), ("b", "a", "c"), boxes)
    write_folder(images, bccd.CLASSES, tmp_path)
    entries = load(str(tmp_path)).entries

    assert [entry.id for entry in entries] == ["n00000000/a.png", "n00000001/b.png", "n00000002/c.png"]
    assert [entry.label for entry in entries] == [0, 1, 2]
    assert [entry.boxes and entry.boxes((16, 24)) for entry in entries] == [boxes[1], boxes[0], None]
    assert np.array_equal(np.asarray(entries[1].read()), pixels[0])


def test_images_without_boxes_are_read_back(tmp_path):
    images = Labelled(np.zeros((2, 32, 32, 3), np.uint8), np.array([9, 3]), ("x", "y"))
    write_folder(images, cifar10.CLASSES, tmp_path)
    entries = load(str(tmp_path)).entries

    assert [(entry.id, entry.label) for entry in entries] == [("x.png", "truck"), ("y.png", "cat")]


def test_shifts_keep_pixels_and_touch_no_other_image():
    images = np.zeros((64, 32, 32, 3), np.uint8)
    images[:, 16, 16] = np.arange(64)[:, None] + 100
    moved = augment.shift_and_flip(images, np.random.default_rng(0))
    places = [np.argwhere(image[..., 0]) for image in moved]

    assert moved.max((1, 2, 3)).tolist() == images.max((1, 2, 3)).tolist()
    assert all(len(found) == 1 and abs(found[0] - 16).max() <= 5 for found in places)  # flipped, 16 becomes 15
    assert len({tuple(found[0]) for found in places}) > 20


def test_turns_give_all_eight_positions():
    images = np.zeros((200, 8, 8, 3), np.uint8)
    images[:, 0, 1] = 255
    turned = augment.turn_and_tint(images, np.random.default_rng(0))
    brightest = {divmod(int(image.sum(-1).argmax()), 8) for image in turned.astype(int)}

    assert brightest == {(0, 1), (0, 6), (7, 1), (7, 6), (1, 0), (6, 0), (1, 7), (6, 7)}
