"""Files read without their weights: nothing is lost, nothing is made up, and broken ones are left to the parser."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradskip_onnx
from gradskip_onnx.errors import ModelError
from gradskip_onnx.graph.read.load import SMALL, load
from gradskip_onnx.graph.read.weightless_parse import skeleton
from gradskip_onnx.model_file.mapped_weights import LARGE, weight_bytes, weight_location
from tests.support.models import Vit, vit

KINDS = (np.float32, np.float64, np.float16, np.int8, np.uint8, np.int32, np.int64, np.bool_)


def stored(arrays: dict[str, Any]) -> onnx.ModelProto:
    """A model of weights and one node."""
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = onnx.helper.make_graph([node], "weights", [x], [y], tensors)
    opset = onnx.helper.make_opsetid("", 17)
    return onnx.helper.make_model(graph, doc_string="kept", opset_imports=[opset], ir_version=8)


def bytes_of(model: onnx.ModelProto) -> Any:
    return np.frombuffer(model.SerializeToString(), np.uint8)


sizes = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 3 * LARGE)), max_size=5)


@given(sizes=sizes, seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_every_weight_is_found_where_it_lies(tmp_path_factory, sizes, seed):
    rng = np.random.default_rng(seed)
    arrays = {f"{'w' * (1 + i)}": rng.integers(0, 2, count).astype(kind) for i, (kind, count) in enumerate(sizes)}
    model = stored(arrays)
    path = tmp_path_factory.mktemp("model") / "m.onnx"
    path.write_bytes(model.SerializeToString())
    read = load(path).model
    large = {name for name, array in arrays.items() if array.nbytes > LARGE and array.size > SMALL}

    assert {tensor.name for tensor in read.graph.initializer if weight_location(tensor)} == large
    assert weight_bytes(read) == sum(array.nbytes for array in arrays.values())
    onnx.load_external_data_for_model(read, str(path.parent))
    for tensor in read.graph.initializer:
        tensor.ClearField("data_location")
        del tensor.external_data[:]
    assert read == model


def test_small_files_are_parsed_as_they_are():
    assert skeleton(bytes_of(stored({"w": np.ones(8)})), "m.onnx") is None


def test_a_graph_in_two_parts_is_left_to_the_parser():
    """Protocol buffers merge messages that are given twice."""
    data = stored({"w": np.ones(LARGE)}).SerializeToString() * 2
    assert skeleton(np.frombuffer(data, np.uint8), "m.onnx") is None


def test_a_tensor_that_is_not_as_long_as_it_says_is_left_to_the_parser():
    model = stored({"w": np.ones(LARGE)})
    model.graph.initializer[0].dims[:] = [LARGE + 1]
    assert skeleton(bytes_of(model), "m.onnx") is None


@given(cut=st.integers(0, 5000), flips=st.lists(st.tuples(st.integers(0, 4999), st.integers(0, 255)), max_size=8))
@settings(max_examples=150, deadline=None)
def test_damaged_files_are_refused_in_one_line_or_read(tmp_path_factory, cut, flips):
    data = bytearray(stored({"w": np.ones(LARGE // 8 + 60), "v": np.ones(3)}).SerializeToString())
    for place, value in flips:
        data[place % len(data)] = value
    path = tmp_path_factory.mktemp("damaged") / "m.onnx"
    path.write_bytes(bytes(data[: len(data) - cut]))
    with contextlib.suppress(gradskip_onnx.GradskipError):  # anything else would be a traceback for a user
        load(path)


def test_a_file_and_its_bytes_are_explained_alike(tmp_path: Path):
    """The weights lie at odd places in the file, and are read there."""
    model = vit(Vit(width=96, depth=3)).SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    image = np.random.default_rng(0).standard_normal((2, 3, 32, 32)).astype(np.float32)
    inside, mapped = gradskip_onnx.load(model), gradskip_onnx.load(path)

    assert all(weight_location(t) is None for t in inside.model.source.model.graph.initializer)
    places = [place for t in mapped.model.source.model.graph.initializer if (place := weight_location(t))]
    assert any(place.offset % 4 for place in places)
    assert inside.sha256 == mapped.sha256
    for method in ("gradskip", "gradskip+", "attnlrp", "rollout"):
        for a, b in zip(inside.explain(image, method=method), mapped.explain(image, method=method), strict=True):
            np.testing.assert_array_equal(a.map, b.map)


def test_a_link_is_followed(tmp_path: Path):
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "abc").write_bytes(vit(Vit(width=96)).SerializeToString())
    link = tmp_path / "model.onnx"
    link.symlink_to(tmp_path / "blobs" / "abc")
    image = np.zeros((1, 3, 32, 32), np.float32)

    assert gradskip_onnx.load(link).explain(image)[0].map.shape == (32, 32)
    assert gradskip_onnx.load(link).name == "model.onnx"


def test_a_weight_file_that_is_too_short_is_named(tmp_path: Path):
    path = tmp_path / "model.onnx"
    onnx.save_model(vit(Vit(width=96)), path, save_as_external_data=True, location="weights.bin", size_threshold=LARGE)
    weights = tmp_path / "weights.bin"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelError, match=r"weights\.bin.*cut short"):
        gradskip_onnx.load(path)
