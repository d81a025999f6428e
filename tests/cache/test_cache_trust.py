"""Nothing is taken from the cache that somebody else could have put there."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import gradskip_onnx
from gradskip_onnx.cache.external_names import external_names
from gradskip_onnx.cache.folder import CacheFolder
from tests.support.models import Vit, vit

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and modes of files are POSIX's")
IMAGE = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)
FACTS = {"model": "a"}


def maps(path: Path, *, cache: bool = True):
    return gradskip_onnx.load(path, threads=1, cache=cache).explain(IMAGE)[0].map


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
