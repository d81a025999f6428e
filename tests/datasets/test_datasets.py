"""Datasets: each layout is recognised, labels and ground truth are read, files nobody vouches for are refused."""

import json
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx import datasets
from gradskip_onnx.datasets import LAYOUTS, Dataset, Selection, load
from gradskip_onnx.datasets.ade20k import read_areas
from gradskip_onnx.datasets.boxes import read_boxes
from gradskip_onnx.datasets.entry import UNLABELLED
from gradskip_onnx.datasets.selection import read_indices, read_part
from gradskip_onnx.demo.scenes import CLASSES, scene
from gradskip_onnx.errors import InputError

FISH, SHARK, BIRD = "n01440764", "n01484850", "n01530575"


def picture(path: Path, size: tuple[int, int] = (20, 30), level: int = 90) -> Path:
    """A grey image of (height, width)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((*size, 3), level, np.uint8)).save(path)
    return path


def voc(*objects: tuple[str, tuple[int, int, int, int]], size: tuple[int, int] = (20, 30)) -> str:
    """An annotation as ILSVRC writes it."""
    listing = "".join(
        f"<object><name>{name}</name><bndbox><xmin>{box[0]}</xmin><ymin>{box[1]}</ymin><xmax>{box[2]}</xmax>"
        f"<ymax>{box[3]}</ymax></bndbox></object>"
        for name, box in objects
    )
    return (
        f"<annotation><size><width>{size[1]}</width><height>{size[0]}</height><depth>3</depth></size>"
        f"{listing}</annotation>"
    )


def labels(dataset: Dataset) -> dict[str, int | str | None]:
    return {entry.id: entry.label for entry in dataset.entries}


# --- folder --------------------------------------------------------------------------------------------------------


def test_folder_with_a_table(tmp_path):
    for name in ("b.png", "a.png", "c/d.png", "unlisted.png"):
        picture(tmp_path / name)
    (tmp_path / "labels.csv").write_text("file,label,more\nb.png,3,x\na.png,tabby cat,y\nc/d.png,,z\n")
    found = load(str(tmp_path))
    assert found.layout == "folder"
    assert labels(found) == {"b.png": 3, "a.png": "tabby cat", "c/d.png": None}


def test_folder_with_json_labels(tmp_path):
    picture(tmp_path / "a.png")
    (tmp_path / "labels.json").write_text(json.dumps({"a.png": 7}))
    assert labels(load(str(tmp_path))) == {"a.png": 7}


def test_folder_by_sub_folders(tmp_path):
    for name in (f"{SHARK}/x.png", "12/y.png", "cat/deep/z.png", "loose.png", ".hidden/q.png"):
        picture(tmp_path / name)
    (tmp_path / "synsets.txt").write_text(f"{FISH} fish\n{SHARK} shark\n")
    assert labels(load(str(tmp_path))) == {
        f"{SHARK}/x.png": 1,
        "12/y.png": 12,
        "cat/deep/z.png": "cat",
        "loose.png": None,
    }


def test_unknown_wordnet_ids_are_told(tmp_path):
    picture(tmp_path / SHARK / "x.png")
    found = load(str(tmp_path))
    assert labels(found) == {f"{SHARK}/x.png": None}
    assert "--synsets" in found.warnings[0]
    assert SHARK in found.warnings[0]


BAD_TABLES = [
    ("labels.csv", "name,class\na.png,1\n", "file and label"),
    ("labels.csv", "file,label\n../../secret.png,1\n", "outside"),
    ("labels.json", "[1, 2]", "object of file: label"),
    ("labels.json", "{", "not JSON"),
]


@pytest.mark.parametrize(("name", "text", "message"), BAD_TABLES)
def test_bad_tables_are_refused(tmp_path, name, text, message):
    picture(tmp_path / "a.png")
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        load(str(tmp_path))


def test_a_digest_follows_the_content(tmp_path):
    path = picture(tmp_path / "a.png")
    (entry,) = load(str(tmp_path)).entries
    before = entry.digest()
    assert entry.digest() == before
    picture(path, level=91)
    assert entry.digest() != before


# --- names and ImageNet --------------------------------------------------------------------------------------------


def test_samples_carry_their_class_in_their_name(tmp_path):
    for name in (f"0003_{SHARK}_shark.JPEG", f"0010_{BIRD}_brambling.JPEG"):
        picture(tmp_path / "images" / name)
    found = load(str(tmp_path))
    assert found.layout == "samples"
    assert list(labels(found).values()) == [3, 10]


def test_samples_without_an_index_need_the_list(tmp_path):
    picture(tmp_path / f"{SHARK}_shark.JPEG")
    assert list(labels(load(str(tmp_path))).values()) == [None]
    (tmp_path / "given.txt").write_text(f"{FISH}\n{SHARK}\n")
    assert list(labels(load(str(tmp_path), synsets=tmp_path / "given.txt")).values()) == [1]


@pytest.fixture
def ilsvrc(tmp_path: Path) -> Path:
    """A flat validation folder, with a box of the class, one of another class, and one file for a larger image."""
    for at in range(3):
        picture(tmp_path / "Data" / "val" / f"ILSVRC2012_val_{at}.JPEG")
    picture(tmp_path / "Data" / "train" / FISH / "elsewhere.JPEG")
    boxes = tmp_path / "Annotations" / "val"
    boxes.mkdir(parents=True)
    (boxes / "ILSVRC2012_val_0.xml").write_text(voc((SHARK, (2, 4, 10, 12)), (FISH, (0, 0, 5, 5))))
    (boxes / "ILSVRC2012_val_1.xml").write_text(voc((FISH, (4, 8, 20, 24)), size=(40, 60)))
    (tmp_path / "LOC_val_solution.csv").write_text(
        f"ImageId,PredictionString\nILSVRC2012_val_0,{SHARK} 2 4 10 12 {FISH} 0 0 5 5\n"
    )
    (tmp_path / "LOC_synset_mapping.txt").write_text(f"{FISH} fish\n{SHARK} shark\n")
    return tmp_path


def test_imagenet(ilsvrc):
    found = load(str(ilsvrc))
    assert found.layout == "imagenet"
    assert list(labels(found).values()) == [1, 0, None]
    first, second, bare = found.entries
    assert first.boxes is not None
    assert second.boxes is not None
    assert first.boxes((20, 30)) == ((2, 4, 10, 12),)  # the fish is no evidence for a shark
    assert second.boxes((20, 30)) == ((2, 4, 10, 12),)  # the file speaks of an image twice as large
    assert bare.boxes is None


def test_imagenet_by_folders_and_split(ilsvrc):
    assert labels(load(str(ilsvrc), split="train")) == {f"Data/train/{FISH}/elsewhere.JPEG": 0}


BOMB = '<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;">]><annotation><folder>&y;</folder></annotation>'
BAD_XML = {
    "entities": (BOMB, "document type"),
    "an outer file": ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><annotation/>', "document type"),
    "no XML": ("hello", "not XML"),
    "deep": ("<a>" * 50 + "</a>" * 50, "nested"),
    "no corner": (voc((FISH, (1, 2, 3, 4))).replace("<xmin>1</xmin>", ""), "xmin"),
    "words": (voc((FISH, (1, 2, 3, 4))).replace("<ymax>4", "<ymax>four"), "ymax"),
    "infinity": (voc((FISH, (1, 2, 3, 4))).replace("<ymax>4", "<ymax>inf"), "ymax"),
    "an undeclared entity": ("<annotation><folder>&boo;</folder></annotation>", "not XML"),
}


@pytest.mark.parametrize(("text", "message"), BAD_XML.values(), ids=BAD_XML)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_bad_annotations_are_refused(tmp_path, text, message, encoding):
    path = tmp_path / "a.xml"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(InputError, match=message):
        read_boxes(path)


# --- arrays, masks, scenes -----------------------------------------------------------------------------------------


def medmnist(path: Path, **arrays: Any) -> Path:
    rng = np.random.default_rng(0)
    content: dict[str, Any] = {
        "test_images": rng.integers(0, 256, (3, 28, 28, 3), dtype=np.uint8),
        "test_labels": np.array([[2], [0], [1]], np.uint8),
        "val_images": rng.integers(0, 256, (2, 28, 28), dtype=np.uint8),
        "val_labels": np.array([[1], [0]], np.uint8),
    } | arrays
    np.savez_compressed(path, **content)
    return path


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


# --- choosing ------------------------------------------------------------------------------------------------------


def test_what_is_no_dataset(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.txt").write_text("x")
    for where, layout, message in (
        (tmp_path / "missing", None, "no such file"),
        (tmp_path / "empty", None, "no images"),
        (tmp_path / "a.txt", None, "of no layout"),
        (tmp_path / "empty", "ade20k", "not of layout ade20k"),
        (tmp_path / "empty", "coco", "unknown layout"),
        ("planted:many", None, "planted:COUNT"),
    ):
        with pytest.raises(InputError, match=message):
            load(str(where), layout)


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), list(range(10))),
        (Selection(part=(1, 2)), [0, 2, 4, 6, 8]),
        (Selection(part=(2, 2)), [1, 3, 5, 7, 9]),
        (Selection(limit=4), [0, 2, 5, 7]),
        (Selection(part=(2, 2), limit=2), [1, 5]),
        (Selection(indices=(7, 3, 7, 0)), [7, 3, 0]),
    ],
    ids=str,
)
def test_selection(selection, expected):
    chosen = selection.of(load("planted:10:0"))
    assert [entry.id for entry in chosen.entries] == [f"scene/{seed}" for seed in expected]


def test_selection_refuses(tmp_path):
    (tmp_path / "list.yaml").write_text("- 4  # the fifth\n- 17\n")
    assert read_indices(tmp_path / "list.yaml") == (4, 17)
    with pytest.raises(InputError, match="index 17"):
        Selection(indices=(4, 17)).of(load("planted:10"))
    (tmp_path / "words.txt").write_text("one two")
    with pytest.raises(InputError, match="whole numbers"):
        read_indices(tmp_path / "words.txt")
    assert read_part("2/3") == (2, 3)
    for text in ("3/2", "0/1", "half"):
        with pytest.raises(InputError, match="part"):
            read_part(text)


# --- the table ------------------------------------------------------------------------------------------------------


def test_every_file_that_reads_a_layout_is_in_the_table():
    folder = Path(datasets.__file__).parent
    modules = [import_module(f"gradskip_onnx.datasets.{path.stem}") for path in sorted(folder.glob("[a-z]*.py"))]
    rows = [module.LAYOUT for module in modules if hasattr(module, "LAYOUT")]
    assert sorted(row.name for row in rows) == sorted(LAYOUTS)
    assert [row for row in rows if LAYOUTS[row.name] is not row] == []


def test_the_order_in_which_layouts_are_tried_and_offered():
    """The command line has the names without importing the table."""
    from gradskip_onnx.cli.evaluation_options import LAYOUT_NAMES

    assert tuple(LAYOUTS) == LAYOUT_NAMES == ("planted", "medmnist", "ade20k", "imagenet", "samples", "folder")
