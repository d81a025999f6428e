"""Names in a file never matter, whatever they are: the map is the same, the terminal is not steered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from tests.support.altered_models import first, maps
from tests.support.command_line import fails, program, run
from tests.support.models import vit


def renamed(new: Callable[[str], str]) -> onnx.ModelProto:
    """The same model, every tensor called otherwise."""
    model = vit()
    graph = model.graph
    for node in graph.node:
        node.input[:] = [name and new(name) for name in node.input]
        node.output[:] = [name and new(name) for name in node.output]
    for entry in (*graph.initializer, *graph.input, *graph.output):
        entry.name = new(entry.name)
    return model


def onto_ours() -> onnx.ModelProto:
    ours = iter(["target", "region", "explain", "gradskip/shape/image", "gradskip/constant_1", "file/gradskip/Mul_1"])
    known: dict[str, str] = {}
    return renamed(lambda name: known[name] if name in known else known.setdefault(name, next(ours, name)))


def nodes_named(name: str) -> onnx.ModelProto:
    model = vit()
    for node in model.graph.node:
        node.name = name
    return model


NAMINGS: dict[str, Callable[[], onnx.ModelProto]] = {
    "nodes named alike": lambda: nodes_named("node"),
    "nodes without names": lambda: nodes_named(""),
    "nodes named as ours": lambda: nodes_named("gradskip/Add_1"),
    "tensors named as ours": onto_ours,
    "every tensor below our prefix": lambda: renamed(lambda name: f"gradskip/{name}"),
    "every tensor below our escaped prefix": lambda: renamed(lambda name: f"file/gradskip/shape/{name}"),
}


@pytest.mark.parametrize("naming", NAMINGS)
def test_names_never_matter(naming: str):
    for expected, found in zip(maps(vit()), maps(NAMINGS[naming]()), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_names_cannot_steer_the_terminal_and_nothing_else_is_written(tmp_path: Path):
    """A process of its own: ONNX Runtime writes to the terminal past Python."""
    path, picture = tmp_path / "model.onnx", tmp_path / "picture.png"
    Image.fromarray(np.zeros((32, 32, 3), np.uint8)).save(picture)
    good, bad = (renamed(lambda name: f"\x1b[31m{name}\x07") for _ in range(2))
    first(bad, "Softmax").input[0] = "\x1b]0;owned\x07"
    for model, codes in ((good, (0,)), (bad, (2, 3))):
        path.write_bytes(model.SerializeToString())
        for words in (["inspect", path, "--why"], ["explain", path, picture, "-o", tmp_path / "out", "--force"]):
            result = program(*words, GRADSKIP_CACHE="off")
            assert result.returncode in codes, result.stderr
            assert all(c.isprintable() or c == "\n" for c in result.stdout + result.stderr)
            assert "onnxruntime:" not in result.stderr
            assert len([line for line in result.stderr.splitlines() if line.startswith("error: ")]) == (codes != (0,))


def test_names_that_are_not_utf8(tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(nodes_named("SOMENAME").SerializeToString().replace(b"SOMENAME", b"\xff\xfe\xfd\xfcNAME"))

    fails(run("inspect", path), 2, "UTF-8")


def test_sizes_named_by_what_is_not_utf8(tmp_path: Path):
    path, model = tmp_path / "model.onnx", vit()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "SOMENAME"
    path.write_bytes(model.SerializeToString().replace(b"SOMENAME", b"\xff\xfe\xfd\xfcNAME"))

    fails(run("inspect", path), 2, "UTF-8")
