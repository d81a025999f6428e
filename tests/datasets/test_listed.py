"""Lists of images: labels, boxes and masks by CSV, on disk and at an address, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from gradskip_onnx.datasets import load, load_source
from gradskip_onnx.errors import InputError
from tests.support.dataset_files import labels, picture

TABLE = """image,label,boxes,mask
a.png,cat,1 2 3 4; 5 6 7 8,
sub/b.png,7,,masks/b.png
c.png,,"9,10,11,12",
c.png,,0 0 1 1,
"""


@pytest.fixture(params=["disk", "memory"])
def where(request, tmp_path) -> str:
    """The folder with the files of TABLE, as a path or an address."""
    for name in ("a.png", "sub/b.png", "c.png"):
        picture(tmp_path / name)
    mask = np.zeros((20, 30), np.uint8)
    mask[5:10, 6:9] = 255
    (tmp_path / "masks").mkdir()
    Image.fromarray(mask).save(tmp_path / "masks" / "b.png")
    (tmp_path / "list.csv").write_text(TABLE)
    if request.param == "disk":
        return str(tmp_path)
    fsspec = pytest.importorskip("fsspec")
    system, root = fsspec.filesystem("memory"), f"/{tmp_path.name}"
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        system.pipe_file(f"{root}/{path.relative_to(tmp_path).as_posix()}", path.read_bytes())
    return f"memory:/{root}"


def test_a_table(where):
    found = load(f"{where}/list.csv")

    assert found.layout == "list"
    assert labels(found) == {"a.png": "cat", "sub/b.png": 7, "c.png": None}
    a, b, c = found.entries
    assert a.boxes is not None
    assert c.boxes is not None
    assert b.outline is not None
    assert a.boxes((20, 30)) == ((1, 2, 3, 4), (5, 6, 7, 8))
    assert c.boxes((20, 30)) == ((9, 10, 11, 12), (0, 0, 1, 1))  # two lines of one image
    assert b.boxes is None
    assert b.outline().sum() == 15
    assert a.read().size == (30, 20)
    assert a.picture is not None
    assert len(str(a.picture().sha256)) == 64


def test_a_text_file(where, tmp_path):
    if "://" in where:
        pytest.skip("the same lines")
    (tmp_path / "images.txt").write_text("# mine\nsub/b.png\tdog\n\na.png\n")

    assert labels(load(f"{where}/images.txt")) == {"sub/b.png": "dog", "a.png": None}


def test_digests(where):
    """The same at each loading, and of each image its own: a and c are one picture with other boxes."""
    one = [entry.digest() for entry in load(f"{where}/list.csv").entries]
    again = [entry.digest() for entry in load(f"{where}/list.csv").entries]

    assert one == again
    assert len(set(one)) == 3


def test_it_is_loaded_again_elsewhere(where):
    found = load(f"{where}/list.csv")
    assert found.source is not None

    assert labels(load_source(found.source)) == labels(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,label\na.png,1\n", "must name the column image"),
        ("image\n/etc/passwd\n", "no path below"),
        ("image\n../a.png\n", "no path below"),
        ("image,label\n,1\n", "no path below"),
        ("image,mask\na.png,../m.png\n", "no path below"),
        ("image,boxes\na.png,1 2 3\n", "is no box"),
        ("image,boxes\na.png,1 2 3 x\n", "is no box"),
        ("image,boxes\na.png,1 2 3 nan\n", "is no box"),
        ("image,boxes\na.png,1 2 3 1e9\n", "is no box"),
        ("image,label\na.png,1\na.png,2\n", "another label"),
        ("image\n", "no images"),
        ("", "must name the column image"),
    ],
)
def test_what_is_refused(tmp_path, text, message):
    (tmp_path / "list.csv").write_text(text)

    with pytest.raises(InputError, match=message):
        load(str(tmp_path / "list.csv"))


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    picture(tmp_path / "outside" / "a.png")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "inside" / "list.csv").write_text("image\nlink/a.png\n")

    with pytest.raises(InputError, match="lies outside"):
        load(str(tmp_path / "inside" / "list.csv"))


class TestAddresses:
    def test_a_folder_by_its_sub_folders(self, where):
        if "://" not in where:
            pytest.skip("that is the layout folder")

        found = load(where)

        assert found.layout == "address"
        assert labels(found) == {"a.png": None, "c.png": None, "masks/b.png": "masks", "sub/b.png": "sub"}
        assert found.entries[0].read().size == (30, 20)
        assert len({entry.digest() for entry in found.entries}) == 2  # three are the same picture, one is a mask

    def test_a_folder_with_labels(self, tmp_path):
        fsspec = pytest.importorskip("fsspec")
        system, root = fsspec.filesystem("memory"), f"/{tmp_path.name}"
        picture(tmp_path / "a.png")
        system.pipe_file(f"{root}/a.png", (tmp_path / "a.png").read_bytes())
        system.pipe_file(f"{root}/labels.csv", b"file,label\na.png,3\n")

        assert labels(load(f"memory:/{root}")) == {"a.png": 3}
        system.pipe_file(f"{root}/labels.csv", b"file,label\n../a.png,3\n")
        with pytest.raises(InputError, match="lies outside"):
            load(f"memory:/{root}")

    def test_an_address_of_the_disk_is_a_path(self, tmp_path):
        picture(tmp_path / "a.png")

        assert load(f"file://{tmp_path}").layout == "folder"

    @pytest.mark.parametrize("where", ["nosuchscheme://x", "memory://nothing-is-here", "memory://nothing/list.csv"])
    def test_what_is_not_there(self, where):
        pytest.importorskip("fsspec")
        with pytest.raises(InputError):
            load(where)

    def test_a_file_that_is_too_large(self, where, monkeypatch):
        if "://" not in where:
            pytest.skip("limits of files on disk are tested elsewhere")
        found = load(where)
        monkeypatch.setenv("GRADSKIP_MAX_IMAGE_BYTES", "10")
        with pytest.raises(InputError, match="GRADSKIP_MAX_IMAGE_BYTES"):
            found.entries[0].read()
