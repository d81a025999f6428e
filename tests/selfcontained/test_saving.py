"""Written model files: whole or absent, weights beside the model where one file cannot hold them."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import gradskip_onnx
from gradskip_onnx.errors import InputError, ModelError
from gradskip_onnx.graph.architecture import read
from gradskip_onnx.graph.read.load import load
from gradskip_onnx.output.atomic import rename_whole
from gradskip_onnx.output.folder import Folder
from gradskip_onnx.selfcontained import save as saving
from gradskip_onnx.selfcontained.save import save
from gradskip_onnx.selfcontained.tensors import show_tensors
from tests.support.models import Vit, vit

# The same kernels on the same inputs; fusions of the forward pass may differ, hence single-precision rounding.
ROUNDING: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture(scope="module")
def plain() -> onnx.ModelProto:
    return vit(Vit(depth=3))


def images(count: int = 2) -> Any:
    return np.random.default_rng(0).standard_normal((count, 3, 32, 32)).astype(np.float32)


def test_saving_is_atomic_and_needs_force(plain, tmp_path: Path):
    path = tmp_path / "deep" / "model.onnx"
    assert save(plain, path) == [path]
    with pytest.raises(InputError, match="--force"):
        save(plain, path)
    save(plain, path, force=True)

    assert [file.name for file in path.parent.iterdir()] == ["model.onnx"]


def test_saving_below_a_file_fails_in_one_line(plain, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        save(plain, tmp_path / "file" / "model.onnx")


KILLED = """
import os, signal, sys
from pathlib import Path
import onnx
from gradskip_onnx.selfcontained import save as saving
from gradskip_onnx.types import Needs

saving.LARGEST_INLINE, rename, left = 0, saving.rename_whole, [int(sys.argv[3])]

def deadly(*arguments):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    rename(*arguments)

saving.rename_whole = deadly
saving.save(onnx.load(sys.argv[1]), Path(sys.argv[2]), force=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills as POSIX does")
@pytest.mark.parametrize("renames", range(3))
def test_killed_while_files_are_put_in_place(plain, tmp_path: Path, renames: int):
    """A model is never left with the weights of another, and the next run clears what the killed one left."""
    path, given = tmp_path / "out" / "model.onnx", tmp_path / "given.onnx"
    other = onnx.ModelProto()
    other.CopyFrom(plain)
    bias = next(tensor for tensor in other.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT)
    bias.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(bias) + 1, bias.name))
    for model, killed in ((plain, 9), (other, renames)):
        onnx.save_model(model, given)
        words = [sys.executable, "-P", "-c", KILLED, str(given), str(path), str(killed)]
        done = subprocess.run(words, check=False, capture_output=True)
    assert done.returncode == (0 if renames == 2 else -signal.SIGKILL), done.stderr
    assert path.exists() == (renames == 2)
    Folder(path.parent).open()
    assert list(path.parent.glob(".gradskip*")) == []
    subprocess.run([*words[:-1], "9"], check=True)
    assert {file.name for file in path.parent.iterdir()} == {"model.onnx", "model.onnx.data"}
    found = onnx.numpy_helper.to_array(next(t for t in onnx.load(path).graph.initializer if t.name == bias.name))
    np.testing.assert_array_equal(found, onnx.numpy_helper.to_array(bias))


def test_disk_full_nothing_is_written(plain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def half(_: object, path: Path, **__: object) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "model.onnx"
    path.write_bytes(b"earlier")
    monkeypatch.setattr(onnx, "save_model", half)
    with pytest.raises(InputError, match="No space left"):
        save(plain, path, force=True)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"model.onnx": b"earlier"}


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx.data"])
def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    """Neither the model nor the file of its weights, and no half of an export stays beside it."""
    monkeypatch.setattr(saving, "LARGEST_INLINE", 0)

    def beaten(temporary: Path, path: Path, replace: bool) -> None:
        if path.name == name:
            path.write_bytes(b"another run's")
        rename_whole(temporary, path, replace)

    monkeypatch.setattr(saving, "rename_whole", beaten)
    with pytest.raises(InputError, match="exists already"):
        save(vit(Vit(depth=3)), tmp_path / "model.onnx")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {name: b"another run's"}


@pytest.fixture(scope="module")
def wide() -> onnx.ModelProto:
    return vit(Vit(width=96))


@pytest.fixture
def external(wide, tmp_path: Path) -> Path:
    """A model with its weights, down to biases, in a second file; ONNX Runtime wants shapes in the first."""
    model = onnx.ModelProto()
    model.CopyFrom(wide)
    path = tmp_path / "model.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="weights.bin", size_threshold=200)
    return path


def test_external_weights_are_explained_in_place(wide, external: Path):
    """Weights beside the file give the same maps as weights inside it."""
    inside, beside = gradskip_onnx.load(wide.SerializeToString()), gradskip_onnx.load(external)
    for a, b in zip(inside.explain(images()), beside.explain(images()), strict=True):
        np.testing.assert_array_equal(a.map, b.map)


def test_external_weights_count_in_the_hash(external: Path):
    before = load(external).sha256
    data = external.parent / "weights.bin"
    data.write_bytes(data.read_bytes()[:-1] + b"\x01")

    assert load(external).sha256 != before


def test_external_weights_are_bundled(external: Path, tmp_path: Path):
    source = load(external)
    whole = show_tensors(source, read(source), preprocess=None, labels=())
    written = save(whole, tmp_path / "out" / "whole.onnx", source)

    assert gradskip_onnx.load(written[0]).explain(images())[0].map.shape == (32, 32)


APART, TOGETHER = ["whole.onnx", "whole.onnx.data"], ["whole.onnx"]


@pytest.mark.parametrize(
    ("held", "bounds", "expected"),
    [
        ("apart", {}, TOGETHER),
        ("apart", {"WORTH_A_FILE": 0}, APART),
        ("inside", {"WORTH_A_FILE": 0}, TOGETHER),
        ("inside", {"LARGEST_INLINE": 0}, APART),
        ("in memory", {"WORTH_A_FILE": 0}, TOGETHER),
        ("in memory", {"LARGEST_INLINE": 0}, APART),
    ],
)
def test_when_weights_get_a_file_of_their_own(wide, external, tmp_path, monkeypatch, held, bounds, expected):
    """Where one file cannot hold them, or where they are large and had one before; weights inside a file stay so."""
    inside = tmp_path / "inside.onnx"
    inside.write_bytes(wide.SerializeToString())
    source = load({"apart": external, "inside": inside, "in memory": wide.SerializeToString()}[held])
    model = show_tensors(source, read(source), preprocess=None, labels=())
    for name, value in bounds.items():
        monkeypatch.setattr(saving, name, value)
    written = save(model, tmp_path / "out" / "whole.onnx", source)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    given, made = (onnxruntime.InferenceSession(str(path)) for path in (inside, written[0]))
    (before,), (after,) = (each.run(["logits"], {"image": images()}) for each in (given, made))

    assert [path.name for path in written] == expected == names
    np.testing.assert_allclose(after, before, **ROUNDING)


def test_the_page_names_the_bound():
    page = (Path(__file__).parent.parent.parent / "docs" / "export.md").read_text(encoding="utf-8")

    assert f"more than {saving.LARGEST_INLINE / 1e9:g} GB" in page


def test_missing_weights_are_named(external: Path):
    (external.parent / "weights.bin").unlink()
    with pytest.raises(ModelError, match=r"weights\.bin"):
        load(external)


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", ""])
def test_weights_outside_the_folder_are_refused(external: Path, location: str):
    model = onnx.load(external, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    external.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="outside"):
        load(external)
