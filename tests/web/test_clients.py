"""The programs of docs/examples that explain without our package: Node, C, and a repository for Triton."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

from gradskip_onnx.demo import demo_image
from tests.support.built_models import PREPROCESS, SIDE, built_model
from tests.support.clients import EXAMPLES, MAP_BOUND, by_node, by_python, node_program, npm_packages

HEADERS = "GRADSKIP_ONNXRUNTIME_INCLUDE"  # environment variable: a folder with onnxruntime_c_api.h


@pytest.mark.slow
@pytest.mark.parametrize("target", [-1, 4])
def test_node(target, built, tmp_path):
    expected = by_python(built, demo_image(), target)
    found = by_node(built, demo_image(), tmp_path, target)

    assert found.explained == expected.explained
    assert np.abs(found.map - expected.map).max() < MAP_BOUND * np.abs(expected.map).max()
    assert f"{expected.explained}  " in found.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "image", "target", "message"),
    [
        ("built", "image", "7", "the model has no class 7; choose 0 to 6"),
        ("built", "image", "-6", "the model has no class -6"),
        ("built", "image", "bird", "the model has no class NaN"),
        ("nothing.onnx", "image", "0", "no such file"),
        ("built", "nothing.png", "0", "missing"),
    ],
)
def test_node_says_in_one_line_what_is_wrong(model, image, target, message, built, tmp_path):
    given = {"built": str(built), "image": str(demo_image())}
    words = [given.get(model, str(tmp_path / model)), given.get(image, str(tmp_path / image)), target]
    done = subprocess.run(
        ["node", node_program(tmp_path), *words], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_node_decodes_as_python_does(built, tmp_path):
    """A JPEG that must be turned, and a PNG one can see through; decoders of JPEG differ in the last bit."""
    scene = Image.open(demo_image()).convert("RGB")
    exif = Image.Exif()
    exif[274] = 6
    scene.resize((300, 200)).save(tmp_path / "turned.jpg", quality=90, exif=exif)
    layered = scene.resize((90, 70)).convert("RGBA")
    layered.putalpha(Image.linear_gradient("L").resize((90, 70)))
    layered.save(tmp_path / "layered.png")
    for name, bound in (("turned.jpg", 2e-2), ("layered.png", 1e-2)):
        expected = by_python(built, tmp_path / name, 1)
        found = by_node(built, tmp_path / name, tmp_path, 1)
        assert np.abs(found.map - expected.map).max() < bound * np.abs(expected.map).max(), name


@pytest.mark.slow
def test_channels_come_last_where_the_file_says_so(tmp_path):
    """The stand-in takes them first, and so refuses them."""
    model = built_model()
    description = json.loads(model.metadata_props[0].value)
    description["anatomy"]["input_layout"] = "bhwc"
    model.metadata_props[0].value = json.dumps(description)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(subprocess.CalledProcessError) as refused:
        by_node(tmp_path / "m.onnx", demo_image(), tmp_path, -1)
    assert "invalid dimensions" in refused.value.stderr


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C program, linked to the library that the Python package brings."""
    compiler = shutil.which("cc")
    named = os.environ.get(HEADERS)
    places = [Path(named)] if named else [Path("/usr/include/onnxruntime"), Path("/usr/local/include/onnxruntime")]
    headers = next((place for place in places if (place / "onnxruntime_c_api.h").exists()), None)
    library = next(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*"), None)
    if compiler is None or headers is None or library is None:
        pytest.skip("no C compiler, or no headers or library of ONNX Runtime")
    folder = tmp_path_factory.mktemp("c")
    (folder / "libonnxruntime.so.1").symlink_to(library)
    words = [compiler, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", EXAMPLES / "c" / "explain.c"]
    words += ["-I", headers, "-L", folder, "-l:libonnxruntime.so.1", "-lm", f"-Wl,-rpath,{folder}"]
    subprocess.run([*map(str, words), "-o", str(folder / "explain")], check=True)
    return folder / "explain"


def read_pfm(path: Path) -> np.ndarray:
    kind, size, order, values = path.read_bytes().split(b"\n", 3)
    width, height = map(int, size.split())
    assert (kind, order) == (b"Pf", b"-1.0")
    return np.frombuffer(values, "<f4").reshape(height, width)[::-1]


def test_c(compiled, built, tmp_path):
    image = Image.open(demo_image()).convert("RGB").resize((SIDE, SIDE))
    image.save(tmp_path / "image.ppm")
    image.save(tmp_path / "image.png")
    for target in (-1, 3):
        whole = PREPROCESS.overlay({"crop": 1.0}, "a test")
        expected = by_python(built, tmp_path / "image.png", target, whole)
        words = [compiled, built, tmp_path / "image.ppm", tmp_path / "map.pfm", *([str(target)] if target >= 0 else [])]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)

        assert done.stdout.startswith(f"class {expected.explained}, logit ")
        assert np.abs(read_pfm(tmp_path / "map.pfm") - expected.map).max() < MAP_BOUND * np.abs(expected.map).max()


def test_c_says_what_is_wrong(compiled, built, tmp_path):
    Image.new("RGB", (SIDE + 1, SIDE)).save(tmp_path / "large.ppm")
    (tmp_path / "prose.ppm").write_text("this is no image")
    for image, message in (
        ("large.ppm", "takes 32x32 pixels"),
        ("prose.ppm", "no binary PPM"),
        ("none.ppm", "no binary"),
    ):
        words = [compiled, built, tmp_path / image, tmp_path / "map.pfm"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 2
        assert message in done.stderr


@pytest.mark.parametrize("word", ["7", "-2", "99999999999999999999", "bird", ""])
def test_c_refuses_a_class_that_the_model_has_not(word, compiled, built, tmp_path):
    """It would read behind the end of the scores."""
    Image.new("RGB", (SIDE, SIDE)).save(tmp_path / "image.ppm")
    words = [compiled, built, tmp_path / "image.ppm", tmp_path / "map.pfm", word]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {word}: no class of this model\n"
    assert not (tmp_path / "map.pfm").exists()


def triton_messages() -> ModuleType:
    """Triton's own model_config.proto, as its client for Python ships it; nothing else of that is imported."""
    package = importlib.util.find_spec("tritonclient")
    if package is None or not package.submodule_search_locations:
        pytest.skip("tritonclient is not installed")
    path = Path(package.submodule_search_locations[0]) / "grpc" / "model_config_pb2.py"
    loader = SourceFileLoader("model_config_pb2", str(path))
    module = ModuleType(loader.name)
    loader.exec_module(module)
    return module


def repository(model: Path, folder: Path) -> Path:
    program = EXAMPLES / "triton" / "make_repository.py"
    subprocess.run([sys.executable, program, model, folder, "--name", "birds"], check=True, timeout=60)
    return folder / "birds"


def test_triton_repository(built, tmp_path):
    """The text names every input and output once, the class to explain as an optional one."""
    made = repository(built, tmp_path / "repository")
    text = (made / "config.pbtxt").read_text()

    assert (made / "1" / "model.onnx").read_bytes() == built.read_bytes()
    assert text.count("input {") == 2
    assert text.count("output {") == 3
    assert text.count("optional: true") == 1
    assert text.index('name: "target"') < text.index("optional: true")


def test_triton_gets_the_weights_that_lie_beside_the_file(built, tmp_path):
    """The file names them; a server looks for them where it lies."""
    model = onnx.load(built)
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.onnx.data", size_threshold=128)
    made = repository(tmp_path / "m.onnx", tmp_path / "repository")
    onnxruntime.InferenceSession(made / "1" / "model.onnx", providers=["CPUExecutionProvider"])

    assert (made / "1" / "m.onnx.data").read_bytes() == (tmp_path / "m.onnx.data").read_bytes()


def test_triton_understands_the_config(built, tmp_path):
    from google.protobuf import text_format

    messages = triton_messages()
    text = (repository(built, tmp_path / "repository") / "config.pbtxt").read_text()
    config = text_format.Parse(text, messages.ModelConfig())
    inputs = {entry.name: entry for entry in config.input}
    outputs = {entry.name: entry for entry in config.output}

    assert config.backend == "onnxruntime"
    assert config.max_batch_size == 0  # Triton takes overridable initialisers only then
    assert list(inputs["image"].dims) == [1, 3, SIDE, SIDE]
    assert (inputs["target"].optional, inputs["image"].optional) == (True, False)
    assert inputs["target"].data_type == messages.TYPE_INT64
    assert {name: list(entry.dims) for name, entry in outputs.items()} == {
        "logits": [1, 7],
        "relevance": [1, SIDE, SIDE],
        "explained": [1],
    }


def test_lock_of_the_node_example():
    """Every package that npm installs has a hash, and the versions are those that package.json names."""
    folder = EXAMPLES / "node"
    lock = json.loads((folder / "package-lock.json").read_text())
    packages = {name: entry for name, entry in lock["packages"].items() if name}

    assert all("integrity" in entry for entry in packages.values())
    for name, version in json.loads((folder / "package.json").read_text())["dependencies"].items():
        assert packages[f"node_modules/{name}"]["version"] == version


def test_where_packages_are_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("GRADSKIP_NODE_MODULES", str(tmp_path))
    with pytest.raises(pytest.skip.Exception):
        npm_packages()
