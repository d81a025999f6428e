"""Which layout a path is of, and which of its images are taken."""

import pytest

from gradskip_onnx.datasets import Selection, load
from gradskip_onnx.datasets.selection import read_indices, read_part
from gradskip_onnx.errors import InputError


def test_what_is_no_dataset(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.dat").write_text("x")
    for where, layout, message in (
        (tmp_path / "missing", None, "no such file"),
        (tmp_path / "empty", None, "no images"),
        (tmp_path / "a.dat", None, "of no layout"),
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
