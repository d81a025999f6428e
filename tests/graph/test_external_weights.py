"""Weights in other files than the model's: what is odd about where they lie is said in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from gradskip_onnx.graph.read.load import load
from tests.support.altered_models import between_blocks, with_functions
from tests.support.command_line import fails, run
from tests.support.models import FLOAT, vit


@pytest.mark.parametrize("value", ["text", "-1", "9" * 30, "9" * 5000, "1e3", "٣", ""])
@pytest.mark.parametrize("key", ["offset", "length"])
def test_external_data_with_odd_numbers(key: str, value: str, tmp_path: Path):
    path = tmp_path / "model.onnx"
    onnx.save_model(vit(), path, save_as_external_data=True, location="weights.bin", size_threshold=200)
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            entry.value = value if entry.key == key else entry.value
    path.write_bytes(model.SerializeToString())

    fails(run("inspect", path), 2)


LOCATIONS = {
    "overlong": b"x" * 5000, "overlong folders": b"a/" * 3000 + b"b", "not UTF-8": b"w\xff\xfe", "zero byte": b"w\0w",
    "folder": b".", "escapes": b"w\x1b[2J\n", "none": b"",
}  # fmt: skip


@pytest.mark.parametrize("location", LOCATIONS.values(), ids=LOCATIONS)
def test_external_data_at_odd_places(location: bytes, tmp_path: Path):
    model = vit()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="~" * len(location))
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString().replace(b"~" * len(location), location))
    result = run("inspect", path)

    fails(result, 2, tensor.name if location in (b"", b"w\xff\xfe") else "is missing")
    assert len(result.stderr) < 500


def held_outside(name: str, value: np.ndarray, folder: Path) -> TensorProto:
    (folder / name).write_bytes(value.tobytes())
    tensor = numpy_helper.from_array(value, name)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=name)
    return tensor


def in_a_function(model: onnx.ModelProto, folder: Path) -> None:
    factor = helper.make_node("Constant", [], ["c"], value=held_outside("factor", np.ones(1, np.float32), folder))
    body = [factor, helper.make_node("Mul", ["x", "c"], ["y"])]
    with_functions(model, helper.make_function("own", "f", ["x"], ["y"], body, [helper.make_opsetid("", 17)]))


def in_a_branch(model: onnx.ModelProto, folder: Path) -> None:
    value = helper.make_tensor_value_info("c", FLOAT, [1])
    body = helper.make_graph([], "body", [], [value], [held_outside("factor", np.ones(1, np.float32), folder)])
    body.initializer[0].name = "c"
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
    choice = helper.make_node("If", ["yes"], ["chosen"], then_branch=body, else_branch=body)
    between_blocks(model, [choice, helper.make_node("Mul", ["STREAM", "chosen"], ["scaled"])], "scaled")


Put = Callable[[onnx.ModelProto, Path], None]


@pytest.mark.parametrize("put", [in_a_function, in_a_branch])
def test_weights_outside_are_hashed_wherever_they_are_named(put: Put, tmp_path: Path):
    model = vit()
    put(model, tmp_path)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    source = load(tmp_path / "model.onnx")
    (tmp_path / "factor").write_bytes(np.full(1, 2, np.float32).tobytes())

    assert source.others == (tmp_path / "factor",)
    assert load(tmp_path / "model.onnx").sha256 != source.sha256
