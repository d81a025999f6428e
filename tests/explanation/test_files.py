"""Files of a result: complete, valid, never mixed up, never overwritten by accident."""

import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx.errors import InputError
from gradskip_onnx.explanation.document import document
from gradskip_onnx.explanation.files import encode_classes, encode_explanation, write_classes, write_explanation
from gradskip_onnx.images.classes import Candidate
from gradskip_onnx.output.folder import Folder, plan_stems
from gradskip_onnx.output.json_text import encode_json
from gradskip_onnx.output.wording import class_suffix

from .results import made_up

IMAGE = Image.new("RGB", (32, 24), (30, 90, 60))

STEMS = [
    (["a/cat.png", "a/dog.jpg"], ("cat", "dog")),
    (["a/cat.png", "b/cat.jpg", "c/cat.png"], ("cat", "cat-2", "cat-3")),
    (["a/cat.png", "b/Cat.png"], ("cat", "Cat-2")),
    (["a/cat.png", "b/cat.png", "a/cat-2.png"], ("cat", "cat-3", "cat-2")),
    (["a/cat-2.png", "a/cat.png", "b/cat.png"], ("cat-2", "cat", "cat-3")),
    (["..png", "a\x1bb.png", "x:y?.png"], ("image", "a_b", "x_y_")),
    ([f"{'é' * 300}.png"], ("é" * 75,)),
]


@pytest.mark.parametrize(("images", "expected"), STEMS, ids=str)
def test_stems_are_unique(images, expected):
    stems = plan_stems(images)
    assert stems == expected
    assert len({stem.casefold() for stem in stems}) == len(images)


SUFFIXES = [
    (Candidate(3, "dog, hound", 0, 0), ".3_dog"),
    (Candidate(3, "", 0, 0), ".3"),
    (Candidate(3, "3", 0, 0), ".3"),
    (Candidate(3, "../../etc/passwd", 0, 0), ".3_etc_passwd"),
]


@pytest.mark.parametrize(("entry", "expected"), SUFFIXES, ids=str)
def test_class_suffix_is_a_safe_name(entry, expected):
    assert class_suffix(entry) == expected


def write(folder: Folder, stem: str = "cat") -> tuple[Path, ...]:
    folder.open()
    folder.claim([stem])
    return write_explanation(folder, encode_explanation(stem, made_up(), IMAGE)).files


def strict(text: str | bytes) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"not JSON: {constant}")

    return json.loads(text, parse_constant=refuse)


def test_three_files_with_the_facts(tmp_path):
    png, npy, facts = write(Folder(tmp_path / "new" / "out"))
    assert sorted(p.name for p in png.parent.iterdir()) == ["cat.json", "cat.npy", "cat.png"]
    values = np.load(npy, allow_pickle=False)
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, made_up().map)
    with Image.open(png) as picture:
        assert picture.width > 700
    document = strict(facts.read_text())
    assert list(document) == sorted(document)
    assert document["format"] == 1
    assert document["model"] == {"file": "m.onnx", "sha256": "ab" * 32}
    assert document["image"]["sha256"] == "cd" * 32
    assert (document["image"]["height"], document["image"]["width"]) == (24, 32)
    assert document["target"] == {"index": 0, "label": "cat", "logit": 3.0, "probability": 0.6}
    assert document["grid"]["rows"] == 3
    assert np.shape(document["grid"]["scores"]) == (3, 4)
    assert document["blocks"][0]["flow"] == [1.0, None]
    assert document["versions"]["numpy"] == np.__version__
    assert document["provider"] == "CPUExecutionProvider"
    assert document["timings"] == {"run": 0.25}
    assert document["files"] == {"png": "cat.png", "npy": "cat.npy", "json": "cat.json"}


def test_the_document_is_made_once_and_names_the_files(tmp_path, monkeypatch):
    """On disk without their folder, so that it can be moved; for a program that reads along with it."""
    counted = Mock(wraps=document)
    monkeypatch.setattr("gradskip_onnx.explanation.files.document", counted)
    folder = Folder(tmp_path)
    folder.claim(["cat"])
    written = write_explanation(folder, encode_explanation("cat", made_up(), IMAGE))

    assert counted.call_count == 1
    assert written.document["files"] == {path.suffix[1:]: str(path) for path in written.files}
    on_disk = strict(written.files[2].read_text())
    assert on_disk["files"] == {"png": "cat.png", "npy": "cat.npy", "json": "cat.json"}
    assert {**on_disk, "files": None} == {**strict(encode_json(written.document)), "files": None}


def test_files_of_several_classes_carry_the_class(tmp_path):
    folder = Folder(tmp_path)
    written = write_classes(folder, encode_classes("cat", [made_up(target=0), made_up(target=1)], IMAGE))

    assert [each.files[0].name for each in written] == ["cat.0_cat.png", "cat.1_dog.png"]
    with pytest.raises(InputError, match="two results"):
        write_classes(folder, encode_classes("cat", [made_up(target=1)], IMAGE))


def test_existing_files_are_kept_unless_forced(tmp_path):
    (tmp_path / "cat.npy").write_bytes(b"mine")
    with pytest.raises(InputError, match=r"cat\.npy exists; use --force"):
        write(Folder(tmp_path))
    assert (tmp_path / "cat.npy").read_bytes() == b"mine"
    write(Folder(tmp_path, force=True))
    assert (tmp_path / "cat.npy").read_bytes() != b"mine"


def test_a_name_is_given_once_even_when_forced(tmp_path):
    folder = Folder(tmp_path, force=True)
    folder.claim(["cat"])
    with pytest.raises(InputError, match="two results"):
        folder.claim(["CAT"])


def test_output_below_a_file_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be written"):
        Folder(tmp_path / "file" / "out").open()


def test_read_only_output_is_found_before_the_work(tmp_path, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(InputError, match=r"out: cannot be written to \(Permission denied\)"):
        Folder(tmp_path / "out").open()


def test_a_failure_half_way_leaves_nothing(tmp_path, monkeypatch):
    for name in ("link", "replace"):
        original = getattr(os, name)

        def full(source, target, original=original):
            if str(target).endswith(".json"):
                raise OSError(28, "No space left on device")
            original(source, target)

        monkeypatch.setattr(os, name, full)
    with pytest.raises(InputError, match="No space left"):
        write(Folder(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_json_is_strict_and_ascii():
    text = encode_json({"b": np.float32(1.5), "a": (np.nan, np.inf, np.int64(3), np.array([1.0])), "é": "\udce9"})
    assert text.isascii()
    assert strict(text) == {"a": [None, None, 3, [1.0]], "b": 1.5, "é": "\udce9"}


def test_scores_of_single_pixels_are_left_to_the_map(monkeypatch):
    """A grid of tokens is written out; a table of all pixels would be a megabyte an image."""
    assert document(made_up())["grid"]["scores"] is not None
    monkeypatch.setattr("gradskip_onnx.explanation.document.MOST_SCORES", 11)
    found = document(made_up())["grid"]
    assert found == {"rows": 3, "columns": 4, "scores": None}
