"""Folders of images: labels from a table, from sub-folders, from file names."""

import json

import pytest

from gradskip_onnx.datasets import load
from gradskip_onnx.errors import InputError
from tests.support.dataset_files import BIRD, FISH, SHARK, labels, picture


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
