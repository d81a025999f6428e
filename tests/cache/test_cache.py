"""What is kept between calls: found by content, whole or absent, and never the reason for another answer."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import gradskip_onnx
from gradskip_onnx.api import Explainer
from gradskip_onnx.cache.dataclass_json import as_plain, encode, from_plain
from gradskip_onnx.cache.folder import VARIABLE, CacheFolder, default_cache
from gradskip_onnx.cache.model_cache import ModelFacts
from gradskip_onnx.demo import demo_image, demo_model
from gradskip_onnx.graph import architecture
from gradskip_onnx.methods import METHODS
from gradskip_onnx.types import Architecture, Array
from tests.support.models import Vit, vit

FIXTURES = Path(__file__).parent.parent / "fixtures"
FACTS = {"model": "a", "size": [1, 2]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(vit(Vit(width=96, depth=3)).SerializeToString())
    return path


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch):
    """Call it, and reading a model fails from then on."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the file was read")

    return lambda: monkeypatch.setattr(architecture, "read", refuse)


def images(explainer: Explainer) -> Array:
    return np.random.default_rng(0).standard_normal((2, *explainer.architecture.input_dims)).astype(np.float32)


# --- the folder -----------------------------------------------------------------------------------------------------


def test_what_is_put_is_got(tmp_path: Path):
    cache = CacheFolder(tmp_path / "new" / "folder")
    assert cache.get(FACTS) is None
    cache.put(FACTS, b"data")
    assert cache.get(FACTS) == b"data"
    assert cache.get(FACTS | {"size": [1, 3]}) is None
    assert cache.folder.stat().st_mode & 0o077 == 0
    assert (len(cache.files()), cache.clear(), cache.files()) == (1, 1, [])


DAMAGES = [lambda d: d[:-1], lambda d: d[:40] + b"?" + d[41:], lambda _: b"", lambda d: d[:20]]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_entries_are_absent_and_removed(tmp_path: Path, damage):
    cache = CacheFolder(tmp_path)
    cache.put(FACTS, b"some data that is kept")
    ((path, _),) = cache.files()
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get(FACTS) is None
    assert not path.exists()


def test_many_writers_and_readers(tmp_path: Path):
    """Every reader sees one of the values whole, or nothing."""
    cache = CacheFolder(tmp_path)
    values = [bytes([n]) * 100_000 for n in range(8)]

    def work(n: int) -> set[bytes | None]:
        seen = set()
        for _ in range(30):
            cache.put(FACTS, values[n])
            seen.add(cache.get(FACTS))
        return seen

    with ThreadPoolExecutor(8) as pool:
        seen = set().union(*pool.map(work, range(8)))
    assert seen <= {None, *values}
    assert len(cache.files()) == 1


def test_the_oldest_entries_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADSKIP_MAX_CACHE_FILES", "3")
    cache = CacheFolder(tmp_path)
    for n in range(5):
        cache.put({"n": n}, b"x")
        os.utime(cache.files()[0][0], (n, n))
        if n >= 2:
            assert cache.get({"n": 0}) == b"x"  # being used keeps it
    assert [n for n in range(5) if cache.get({"n": n})] == [0, 3, 4]


def test_what_is_too_large_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADSKIP_MAX_CACHE_ENTRY_BYTES", "10")
    cache = CacheFolder(tmp_path)
    cache.put(FACTS, b"x" * 11)
    assert cache.files() == []


def test_a_folder_that_cannot_be_made_is_no_failure(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    cache = CacheFolder(tmp_path / "file" / "folder")
    cache.put(FACTS, b"x")
    assert cache.get(FACTS) is None


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert default_cache() == CacheFolder(tmp_path)
    monkeypatch.setenv(VARIABLE, "off")
    assert default_cache() is None
    monkeypatch.delenv(VARIABLE)
    found = default_cache()
    assert found is not None
    assert "gradskip" in str(found.folder)


# --- models ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [demo_model(), *sorted(FIXTURES.glob("*.onnx"))], ids=lambda path: path.stem)
def test_the_second_time_nothing_is_read_and_nothing_differs(path: Path, folder: Path, unread):
    first = gradskip_onnx.load(path)
    every = [name for name in ("gradskip", "gradskip+", "finer-cam") if not METHODS[name].refuses(first.architecture)]
    expected = {name: first.explain(images(first), method=name) for name in every}
    unread()
    again = gradskip_onnx.load(path)

    assert (again.name, again.sha256, again.labels) == (first.name, first.sha256, first.labels)
    assert (again.architecture, again.preprocess, again.warnings) == (
        first.architecture, first.preprocess, first.warnings,
    )  # fmt: skip
    for name in every:
        for a, b in zip(again.explain(images(again), method=name), expected[name], strict=True):
            np.testing.assert_array_equal(a.map, b.map)
            assert a.target == b.target
    with pytest.raises(AssertionError, match="was read"):  # so the fixture does refuse
        again.explain(images(again), method="rollout")
    assert folder.exists()


def test_other_weights_are_another_model(file: Path, folder: Path):
    before = gradskip_onnx.load(file)
    known = before.explain(images(before))
    data = file.read_bytes()
    other = vit(Vit(width=96, depth=3, seed=1)).SerializeToString()
    assert len(other) == len(data)
    file.write_bytes(other)
    after = gradskip_onnx.load(file)

    assert after.sha256 != before.sha256
    assert np.abs(after.explain(images(after))[0].map - known[0].map).max() > 0
    np.testing.assert_array_equal(
        after.explain(images(after))[0].map, gradskip_onnx.load(other, cache=False).explain(images(after))[0].map
    )
    assert len(list(folder.iterdir())) >= 4


def test_a_copy_of_another_name_is_read_where_it_lies(file: Path, folder: Path):
    expected = gradskip_onnx.load(file).explain(np.ones((1, 3, 32, 32), np.float32))
    copy = file.rename(file.with_name("copy.onnx"))
    found = gradskip_onnx.load(copy).explain(np.ones((1, 3, 32, 32), np.float32))
    np.testing.assert_array_equal(found[0].map, expected[0].map)
    assert folder.exists()


def test_weights_beside_the_model_are_looked_at(tmp_path: Path, folder: Path, unread):
    path, weights = tmp_path / "model.onnx", tmp_path / "weights.bin"
    onnx.save_model(vit(Vit(width=96)), path, save_as_external_data=True, location="weights.bin", size_threshold=200)
    first = gradskip_onnx.load(path)
    first.explain(images(first))
    changed = weights.read_bytes()
    unread()
    assert gradskip_onnx.load(path).sha256 == first.sha256
    weights.write_bytes(changed[:-1] + b"\x01")
    with pytest.raises(AssertionError, match="was read"):
        gradskip_onnx.load(path)
    assert folder.exists()


def test_without_a_cache_nothing_is_kept(file: Path, folder: Path):
    explainer = gradskip_onnx.load(file, cache=False)
    explainer.explain(images(explainer))
    assert not folder.exists()


def test_an_entry_of_another_form_is_read_anew(file: Path, folder: Path):
    explainer = gradskip_onnx.load(file)
    (path,) = folder.iterdir()
    cache = CacheFolder(folder)
    data = b'{"not": "a portrait"}'
    cache.put(FACTS, data)
    (made,) = (entry for entry, _ in cache.files() if entry != path)
    made.replace(path)
    assert gradskip_onnx.load(file).sha256 == explainer.sha256


def test_kept_graphs_need_no_graph_library(file: Path, folder: Path):
    program = (
        "import sys, gradskip_onnx\n"
        "found = gradskip_onnx.load(sys.argv[1], 'cpu').explain(sys.argv[2])\n"
        "print(*('onnx' in sys.modules, 'onnx_graphsurgeon' in sys.modules, float(found.map.sum())))\n"
    )
    run = [sys.executable, "-P", "-c", program, str(file), str(demo_image())]
    first, second = (subprocess.run(run, capture_output=True, text=True, check=True).stdout.split() for _ in range(2))
    assert first[:2] == ["True", "True"]
    assert second[:2] == ["False", "False"]
    assert first[2] == second[2]
    assert folder.exists()


def test_frugal_sessions_give_the_same_maps(file: Path):
    plain, low_memory = gradskip_onnx.load(file), gradskip_onnx.load(file, low_memory=True)
    for a, b in zip(plain.explain(images(plain)), low_memory.explain(images(low_memory)), strict=True):
        np.testing.assert_allclose(a.map, b.map, atol=1e-5 * float(np.abs(a.map).max()))


# --- records and the command ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [demo_model(), *sorted(FIXTURES.glob("*.onnx"))], ids=lambda path: path.stem)
def test_architectures_survive(path: Path):
    found = gradskip_onnx.inspect(path)
    assert from_plain(Architecture, as_plain(found)) == found


@pytest.mark.parametrize("document", [3, {"sha256": 1}, {"unknown": 1}, {"architecture": []}])
def test_documents_of_other_kinds_are_refused(document):
    with pytest.raises(ValueError):
        from_plain(ModelFacts, document)
    assert encode((1, "a")) == b'[1,"a"]'


def test_the_command(file: Path, folder: Path, tmp_path: Path):
    from gradskip_onnx.cli.main import cli

    run = CliRunner().invoke
    arguments = ["explain", str(file), str(demo_image()), "-o", str(tmp_path / "out"), "--force", "-q"]
    assert run(cli, [*arguments, "--no-cache"]).exit_code == 0
    assert not folder.exists()
    assert run(cli, arguments).exit_code == 0
    assert "entries   2," in run(cli, ["cache"]).output
    assert "2 entries removed" in run(cli, ["cache", "--clear"]).output
    assert "entries   0," in run(cli, ["cache"]).output


def test_the_command_where_nothing_is_kept(monkeypatch: pytest.MonkeyPatch):
    from gradskip_onnx.cli.main import cli

    monkeypatch.setenv(VARIABLE, "off")
    assert "GRADSKIP_CACHE is off" in CliRunner().invoke(cli, ["cache"]).output
