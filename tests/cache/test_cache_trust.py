"""The cache never answers for other weights, and nothing is taken from it that somebody else could have put there."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.external_data_helper import ExternalDataInfo, set_external_data

import gradskip_onnx
from gradskip_onnx.cache.external_names import external_names
from gradskip_onnx.cache.folder import CacheFolder
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


# --- stale cache, silent wrong map ----------------------------------------------------------------------------------


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


# --- cache trust ----------------------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o720])
def test_cache_trust_folder_others_can_write_to(tmp_path: Path, folder: Path, mode: int):
    path = tmp_path / "model.onnx"
    path.write_bytes(vit().SerializeToString())
    gradskip_onnx.load(path)
    (entry,) = folder.iterdir()
    folder.chmod(mode)
    found = gradskip_onnx.load(path)

    assert CacheFolder(folder).get(FACTS) is None
    assert any("others can write" in warning for warning in found.warnings)
    assert list(folder.iterdir()) == [entry]
    folder.chmod(0o755)
    assert not any("cache" in warning for warning in gradskip_onnx.load(path).warnings)


@posix
def test_cache_trust_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cache = CacheFolder(tmp_path / "kept")
    cache.put(FACTS, b"data")
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    cache.put({"other": 1}, b"data")

    assert cache.get(FACTS) is None
    assert "belongs to user" in cache.distrust()
    assert len(list(cache.folder.iterdir())) == 1


@posix
def test_cache_trust_entry_others_can_write_to(tmp_path: Path):
    cache = CacheFolder(tmp_path / "kept")
    cache.put(FACTS, b"data")
    ((path, _),) = cache.files()
    path.chmod(0o666)
    assert cache.get(FACTS) is None
    path.chmod(0o600)
    assert cache.get(FACTS) == b"data"


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(hashlib.sha256(b"data").digest() + b"data")
    path.symlink_to(copy)


ODD: dict[str, Callable[[Path], object]] = {
    "pipe": _fifo,
    "link": _link,
    "folder": Path.mkdir,
    "loop": lambda path: path.symlink_to(path),
}


@posix
@pytest.mark.parametrize("kind", ODD)
def test_cache_trust_entries_that_are_no_files(tmp_path: Path, kind: str):
    """Ignored at once, whatever they are; nobody waits for a pipe."""
    cache = CacheFolder(tmp_path / "kept")
    cache.put(FACTS, b"data")
    ((path, _),) = cache.files()
    path.unlink()
    ODD[kind](path)
    began = time.monotonic()

    assert cache.get(FACTS) is None
    cache.put(FACTS, b"new")
    cache.clear()
    assert time.monotonic() - began < 2


def test_cache_trust_entries_that_are_too_large_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cache = CacheFolder(tmp_path / "kept")
    cache.put(FACTS, b"data" * 100)
    monkeypatch.setenv("GRADSKIP_MAX_CACHE_ENTRY_BYTES", "100")
    assert cache.get(FACTS) is None


def forge(folder: Path, edit) -> int:
    """Edit the content of every entry and sign it anew; returns how many were changed."""
    changed = 0
    for path in sorted(folder.glob("*.kept")):
        data = path.read_bytes()[32:]
        forged = edit(data)
        path.write_bytes(hashlib.sha256(forged).digest() + forged)
        changed += forged != data
    return changed


DEEP = b"[" * 200_000
OTHER_GRAPH = vit(Vit()).SerializeToString().replace(b"image", b"other")  # runs, but takes another input
FORGERIES = {
    "deep facts": lambda data: DEEP if b"\n" not in data else data,
    "deep plan": lambda data: DEEP + b"\n" + data if b"\n" in data else data,
    "no JSON": lambda _: b"\xff\xfe\n",
    "numbers": lambda _: b"3\n3",
    "other weights": lambda data: data.replace(b'"location":"model.onnx"', b'"location":"../secret"'),
    "another graph": lambda data: data.partition(b"\n")[0] + b"\n" + OTHER_GRAPH if b"\n" in data else data,
    "half a graph": lambda data: data[: len(data) // 2] if b"\n" in data else data,
    "weights inside the graph": lambda data: data.replace(
        b"\x0a\x08location\x12\x0amodel.onnx", b"\x0a\x08location\x12\x0a../a.secre"
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_cache_trust_forged_entries_are_read_anew(tmp_path: Path, folder: Path, name: str):
    path = tmp_path / "model.onnx"
    path.write_bytes(vit(Vit(width=96)).SerializeToString())
    expected = maps(path)
    assert forge(folder, FORGERIES[name]) > 0
    np.testing.assert_array_equal(maps(path), expected)


def test_names_of_files_in_a_graph():
    """Every file named, as onnx reads it, and more than that where the bytes are odd."""
    model = vit()
    for at, tensor in enumerate(model.graph.initializer):
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", f"{'x' * (at * 40)}{at % 3}.bin"
    expected = {entry.value for tensor in model.graph.initializer for entry in tensor.external_data}
    assert external_names(model.SerializeToString()) == expected
    assert external_names(vit().SerializeToString()) == frozenset()

    proto = onnx.TensorProto()
    entry = proto.external_data.add()
    entry.key, entry.value = "location", "good"
    data = proto.SerializeToString()
    twice = bytes([data[0], data[1] + 6]) + data[2:] + b"\x12\x04evil"
    assert onnx.TensorProto.FromString(twice).external_data[0].value == "evil"
    assert external_names(twice).isdisjoint({"good"})
    entry.ClearField("value")
    assert external_names(proto.SerializeToString() + b"\x6a\x0e\x12\x04evil") != frozenset()


# --- a clock that jumps ---------------------------------------------------------------------------------------------


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


def test_clock_that_jumps_never_prunes_the_entry_just_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Older entries dated after it, today's or from the future: the new one stays, and the limit holds."""
    monkeypatch.setenv("GRADSKIP_MAX_CACHE_FILES", "3")
    cache = CacheFolder(tmp_path / "kept")
    for number in range(3):
        cache.put({"n": number}, b"old")
    for path, _ in cache.files():
        os.utime(path, (time.time() + 1e6, time.time() + 1e6))
    cache.put({"n": 3}, b"new")

    assert cache.get({"n": 3}) == b"new"
    assert len(cache.files()) == 3


def test_entries_with_facts_of_files_outside(tmp_path: Path, folder: Path):
    """Facts that claim weight files outside the folder are not believed."""
    path = tmp_path / "model.onnx"
    path.write_bytes(vit(Vit(width=96)).SerializeToString())
    expected = gradskip_onnx.load(path).sha256

    def outside(data: bytes) -> bytes:
        return json.dumps(json.loads(data) | {"others": ["../secret"]}).encode()

    assert forge(folder, outside) == 1
    assert gradskip_onnx.load(path).sha256 == expected
