"""The folder of a site: what is in it, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import onnx
import pytest
from gradskip_onnx.cli.main import COMMANDS

from gradskip_onnx.demo import demo_image, demo_model
from gradskip_onnx.errors import InputError
from gradskip_onnx.web import built_file, runtime_files, site
from gradskip_onnx.web.built_file import is_built, read_built_file
from gradskip_onnx.web.runtime_files import PACKAGE, VARIABLE, VERSION, WASM, WEBGPU, Runtime, find_runtime
from gradskip_onnx.web.site import write_site
from tests.support.built_models import built_model
from tests.support.command_line import fails, run

RUNTIME = Runtime("9.9.9", {name: name.encode() for name in WASM}, "a test")


def unpacked(folder: Path, name: str = PACKAGE) -> Path:
    """A folder that looks like the package after unpacking."""
    (folder / "dist").mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps({"name": name, "version": "9.9.9"}))
    for each in (*WASM, *WEBGPU):
        (folder / "dist" / each).write_bytes(each.encode())
    return folder


def test_files_of_a_site(built, tmp_path):
    """The table names every part with its size, and everything lies in the folder."""
    made = write_site(read_built_file(built), RUNTIME, tmp_path / "site", title="<Birds>", examples=[demo_image()])
    table = json.loads((tmp_path / "site" / "site.json").read_text())
    parts = table["model"]["parts"]

    assert {path.relative_to(made.folder).as_posix() for path in made.folder.rglob("*") if path.is_file()} == set(
        made.sizes
    )
    assert b"".join((made.folder / part["name"]).read_bytes() for part in parts) == built.read_bytes()
    assert all((made.folder / part["name"]).stat().st_size == part["bytes"] for part in parts)
    assert table["runtime"]["files"] == {name: len(name) for name in WASM}
    assert (made.folder / table["examples"][0]["file"]).read_bytes() == demo_image().read_bytes()
    assert table["title"] == "<Birds>"
    assert {"index.html", "page.css", "app.mjs", ".nojekyll"} <= set(made.sizes)


def test_nothing_comes_from_elsewhere(built, tmp_path):
    """No file of the page names another host."""
    made = write_site(read_built_file(built), RUNTIME, tmp_path, title="t")
    ours = [path for path in made.folder.iterdir() if path.suffix in (".html", ".mjs", ".css")]
    texts = [path.read_text() for path in ours]

    assert len(ours) > 10
    assert not any("https://" in text for text in texts)
    assert "connect-src 'self'" in (made.folder / "index.html").read_text()


def test_a_large_model_lies_in_parts(built, tmp_path, monkeypatch):
    """Hosts such as GitHub Pages refuse files of more than 100 MB."""
    monkeypatch.setattr(site, "PART", 1000)
    made = write_site(read_built_file(built), RUNTIME, tmp_path, title="t")
    parts = json.loads((tmp_path / "site.json").read_text())["model"]["parts"]

    assert len(parts) == -(-built.stat().st_size // 1000) > 1
    assert b"".join((made.folder / part["name"]).read_bytes() for part in parts) == built.read_bytes()


def test_a_model_no_browser_holds_is_refused(built, tmp_path, monkeypatch):
    monkeypatch.setattr(built_file, "LARGEST_MODEL", 5_000)
    with pytest.raises(InputError, match=r"tiny\.onnx has 0 MB, a browser holds at most 0 MB"):
        write_site(read_built_file(built), RUNTIME, tmp_path, title="t")


def test_an_earlier_site_stays_without_force(built, tmp_path):
    made = write_site(read_built_file(built), RUNTIME, tmp_path, title="first")
    with pytest.raises(InputError, match="--force"):
        write_site(read_built_file(built), RUNTIME, tmp_path, title="second")
    assert json.loads((made.folder / "site.json").read_text())["title"] == "first"

    write_site(read_built_file(built), RUNTIME, tmp_path, title="second", force=True)
    assert json.loads((made.folder / "site.json").read_text())["title"] == "second"


@pytest.mark.parametrize("change", ["outputs", "image_size"])
def test_missing_entries_are_named(change, tmp_path):
    model = built_model()
    entry = model.metadata_props[0]
    document = json.loads(entry.value)
    del document["built"][change]
    entry.value = json.dumps(document)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match=f"lacks '{change}'"):
        read_built_file(tmp_path / "m.onnx")


def test_weights_beside_the_file_come_along(tmp_path, built):
    model = built_model()
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    whole = onnx.ModelProto.FromString(read_built_file(tmp_path / "m.onnx").file.data.tobytes())

    assert (tmp_path / "m.onnx").stat().st_size < built.stat().st_size
    assert [onnx.numpy_helper.to_array(tensor).tolist() for tensor in whole.graph.initializer] == [
        onnx.numpy_helper.to_array(tensor).tolist() for tensor in built_model().graph.initializer
    ]


def test_whether_a_file_is_built(built):
    assert is_built(built)
    assert not is_built(demo_model())


def test_a_file_that_is_no_model(tmp_path):
    (tmp_path / "prose.onnx").write_text("this is no model\n" * 40)
    with pytest.raises(InputError, match=r"prose\.onnx"):
        read_built_file(tmp_path / "prose.onnx")


def test_runtime_from_a_folder(tmp_path, monkeypatch):
    """The option comes before the environment."""
    monkeypatch.setenv(VARIABLE, str(unpacked(tmp_path / "by-variable")))
    by_variable = find_runtime(None, webgpu=False, cache=None)
    by_option = find_runtime(unpacked(tmp_path / "by-option"), webgpu=True, cache=None)

    assert set(by_variable.files) == set(WASM)
    assert set(by_option.files) == {*WASM, *WEBGPU}
    assert by_option.version == "9.9.9"
    assert by_option.origin.endswith("by-option")


def test_wrong_folders(tmp_path):
    with pytest.raises(InputError, match="no unpacked npm package"):
        find_runtime(tmp_path, webgpu=True, cache=None)
    with pytest.raises(InputError, match="holds the package 'left-pad'"):
        find_runtime(unpacked(tmp_path / "other", "left-pad"), webgpu=True, cache=None)


def fake_npm(folder: Path, script: str) -> None:
    npm = folder / "npm"
    npm.write_text(f"#!/bin/sh\n{script}\n")
    npm.chmod(0o755)


def test_without_npm(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="npm is not installed"):
        find_runtime(None, webgpu=True, cache=None)


@pytest.mark.skipif(os.name != "posix", reason="a shell script stands for npm")
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'no network' >&2; exit 1", "no network"),
        ('for last; do :; done; echo swapped > "$last/a.tgz"', "another content than expected"),
        ("exit 0", "it says nothing"),
    ],
)
def test_npm_that_fails_or_gives_something_else(script, message, tmp_path, monkeypatch):
    """Nothing is used that does not have the hash of the release."""
    fake_npm(tmp_path, script)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(InputError, match=message):
        find_runtime(None, webgpu=True, cache=None)


@pytest.mark.slow  # asks the npm registry, which may keep one waiting
def test_pinned_version(runtime):
    assert runtime.version == VERSION
    assert set(runtime.files) == {*WASM, *WEBGPU}
    assert all(len(content) > 10_000 for content in runtime.files.values())


def test_command(built, tmp_path):
    words = ("web", built, "-o", tmp_path / "site", "--runtime", unpacked(tmp_path / "package"), "--no-webgpu")
    result = run(*words, "--title", "Birds", "--example", demo_image())

    assert result.exit_code == 0, result.output
    assert "onnxruntime-web 9.9.9" in result.stdout
    assert json.loads((tmp_path / "site" / "site.json").read_text())["title"] == "Birds"
    fails(run(*words), 2, "--force")
    assert "web" in COMMANDS


def test_the_demo_and_files_that_are_not_built_are_built_first(tmp_path):
    package = unpacked(tmp_path / "package")
    made = run("web", "-o", tmp_path / "demo", "--runtime", package)
    again = run("web", "-o", tmp_path / "demo", "--runtime", package)  # the demo overwrites its own files
    table = json.loads((tmp_path / "demo" / "site.json").read_text())

    assert (made.exit_code, again.exit_code) == (0, 0), made.output
    assert "method gradskip+" in made.stdout
    assert table["model"]["name"] == "vit.onnx"
    assert [entry["name"] for entry in table["examples"]] == ["image"]
    assert is_built(tmp_path / "demo" / "model" / "explained.onnx")


def test_options_of_build_are_for_files_that_are_not_built(built, tmp_path):
    result = run("web", built, "--runtime", unpacked(tmp_path / "package"), "--preset", "half", "-o", tmp_path / "s")
    assert result.exit_code == 2
    assert "--preset is an option of `build`" in result.stderr


def test_the_integrity_is_a_whole_digest():
    kind, digest = runtime_files.INTEGRITY.split("-", 1)
    assert kind == "sha512"
    assert len(digest) == 88
