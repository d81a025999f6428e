"""The cache never answers for other weights, whatever the dates of files say."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.external_data_helper import ExternalDataInfo, set_external_data

import gradskip_onnx
from gradskip_onnx.errors import GradskipError, ModelError
from gradskip_onnx.graph.read.load import load
from gradskip_onnx.model_file import opening
from tests.support.models import Vit, vit

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and modes of files are POSIX's")
IMAGE = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)
FACTS = {"model": "a"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model all of whose weights, large and small, are in a file beside it."""
    path = tmp_path / "model" / "model.onnx"
    path.parent.mkdir()
    proto = vit(Vit(width=96))
    for tensor in proto.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:  # ONNX Runtime refuses shapes that lie outside
            set_external_data(tensor, "weights.bin")
    onnx.save_model(proto, path)
    return path


def maps(path: Path, *, cache: bool = True):
    return gradskip_onnx.load(path, threads=1, cache=cache).explain(IMAGE)[0].map


def stored_floats(path: Path) -> list[onnx.TensorProto]:
    """The external float tensors: those whose bytes can be changed and still be weights."""
    proto = onnx.load(path, load_external_data=False)
    return [tensor for tensor in proto.graph.initializer if tensor.external_data and tensor.data_type == 1]


def change(path: Path, tensor: onnx.TensorProto, *, keep_dates: bool) -> None:
    """Other values for one tensor, in place: the file keeps its size and, if asked, its dates."""
    weights, entry = path.parent / "weights.bin", ExternalDataInfo(tensor)
    dates = weights.stat()
    with weights.open("rb+") as stream:
        stream.seek(entry.offset or 0)
        old = np.frombuffer(stream.read(entry.length), np.float32)
        stream.seek(entry.offset or 0)
        stream.write((old * 1.5 + 0.25).astype(np.float32).tobytes())
    if keep_dates:
        os.utime(weights, ns=(dates.st_atime_ns, dates.st_mtime_ns))


@pytest.mark.slow
def test_stale_cache_each_external_tensor_changed(model: Path, folder: Path):
    """Whichever tensor changes, small or large, with or without new dates: the answer is that of a fresh reading."""
    tensors = stored_floats(model)
    sizes = {ExternalDataInfo(tensor).length or 0 for tensor in tensors}
    assert min(sizes) < 4096 < max(sizes)
    before, hashes = maps(model), set()
    for at, tensor in enumerate(tensors):
        change(model, tensor, keep_dates=at % 2 == 0)
        kept, fresh = gradskip_onnx.load(model, threads=1), maps(model, cache=False)
        hashes.add(kept.sha256)
        np.testing.assert_array_equal(kept.explain(IMAGE)[0].map, fresh, err_msg=tensor.name)
    assert len(hashes) == len(tensors)
    assert np.abs(fresh - before).max() > 0
    assert folder.exists()


def test_stale_cache_small_weight_in_the_kept_graph(model: Path, folder: Path):
    """The case that was seen: a bias is inside the kept graph, its file changes, model.onnx stays."""
    first = maps(model)
    bias = next(tensor for tensor in stored_floats(model) if len(tensor.dims) == 1)
    change(model, bias, keep_dates=True)

    np.testing.assert_array_equal(maps(model), maps(model, cache=False))
    assert folder.exists()
    assert first.shape == maps(model).shape


def test_weight_files_are_hashed_one_by_one(tmp_path: Path):
    """A byte that moves from one weight file to the next changes the hash."""
    (tmp_path / "m").write_bytes(b"model")
    found = set()
    for first, second in ((b"ab", b"c"), (b"a", b"bc")):
        (tmp_path / "1").write_bytes(first)
        (tmp_path / "2").write_bytes(second)
        found.add(opening.open_model_file(tmp_path / "m").sha256([tmp_path / "1", tmp_path / "2"]))
    assert len(found) == 2
    assert opening.open_model_file(tmp_path / "m").sha256() == hashlib.sha256(b"model").hexdigest()


@pytest.mark.parametrize("before", [True, False], ids=["before it is hashed", "after it is hashed"])
def test_weights_replaced_while_a_model_is_read(model: Path, monkeypatch: pytest.MonkeyPatch, before: bool):
    """Small weights are copied out of their file; they are of the bytes that were hashed, or there is no answer."""
    bias = next(tensor for tensor in stored_floats(model) if len(tensor.dims) == 1)
    weights, other = model.parent / "weights.bin", model.parent / "other.bin"
    old = weights.read_bytes()
    change(model, bias, keep_dates=True)
    other.write_bytes(weights.read_bytes())
    weights.write_bytes(old)
    original = opening.ModelFile.sha256

    def replacing(file: opening.ModelFile, others: Iterable[Path] = ()) -> str:
        if before and other.exists():
            other.replace(weights)
        digest = original(file, others)
        if other.exists():
            other.replace(weights)
        return digest

    with monkeypatch.context() as patch:
        patch.setattr(opening.ModelFile, "sha256", replacing)
        if not before:
            with pytest.raises(ModelError, match=r"weights.bin was changed or replaced"):
                load(model)
            return
        found = load(model)
    fresh = load(model)
    assert found.sha256 == fresh.sha256
    assert found.model == fresh.model


@pytest.mark.parametrize("keep_dates", [True, False])
def test_weights_changed_in_place_while_mapped(model: Path, keep_dates: bool):
    explainer = gradskip_onnx.load(model, threads=1, cache=False)
    explainer.explain(IMAGE)
    change(model, stored_floats(model)[-1], keep_dates=keep_dates)
    with pytest.raises(ModelError, match=r"weights.bin was changed"):
        explainer.explain(IMAGE)


def test_model_file_replaced_while_it_is_mapped(tmp_path: Path):
    """The open session still answers for the old bytes; what is opened later would be the new ones, and is refused."""
    path = tmp_path / "model.onnx"
    path.write_bytes(vit(Vit(width=96)).SerializeToString())
    explainer = gradskip_onnx.load(path, threads=1, cache=False)
    before = explainer.explain(IMAGE)[0].map
    other = tmp_path / "other.onnx"
    other.write_bytes(vit(Vit(width=96, seed=1)).SerializeToString())
    os.replace(other, path)

    np.testing.assert_array_equal(explainer.explain(IMAGE)[0].map, before)
    explainer.close()
    with pytest.raises(GradskipError, match="changed"):
        explainer.explain(IMAGE)


def test_a_touched_model_is_still_the_same(model: Path):
    """New dates alone are no change."""
    explainer = gradskip_onnx.load(model, threads=1, cache=False)
    before = explainer.explain(IMAGE)[0].map
    for path in (model, model.parent / "weights.bin"):
        os.utime(path)
        path.chmod(0o600)
    explainer.close()
    np.testing.assert_array_equal(explainer.explain(IMAGE)[0].map, before)


def test_weights_that_vanish_are_one_line(model: Path):
    explainer = gradskip_onnx.load(model, threads=1, cache=False)
    (model.parent / "weights.bin").unlink()
    with pytest.raises(ModelError):
        explainer.explain(IMAGE)


@pytest.mark.parametrize("years", [-50, 50])
def test_clock_that_jumps_changes_no_answer(model: Path, folder: Path, years: int):
    """Dates of the model, its weights and the kept entries, long ago or yet to come, mean nothing: bytes do."""
    first = maps(model)
    when = time.time() + years * 3.15e7
    for path in (*model.parent.iterdir(), *folder.iterdir()):
        os.utime(path, (when, when))
    np.testing.assert_array_equal(maps(model), first)
    bias = next(tensor for tensor in stored_floats(model) if len(tensor.dims) == 1)
    change(model, bias, keep_dates=True)
    np.testing.assert_array_equal(maps(model), maps(model, cache=False))
