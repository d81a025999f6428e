"""ImageNet as ILSVRC ships it: labels and boxes; annotations nobody vouches for are refused."""

from pathlib import Path

import pytest

from gradskip_onnx.datasets import load
from gradskip_onnx.datasets.boxes import read_boxes
from gradskip_onnx.errors import InputError
from tests.support.dataset_files import FISH, SHARK, labels, picture, voc


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
