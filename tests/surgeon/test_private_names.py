"""The private names of onnx-graphsurgeon: that they exist, do what the adapter expects, and are used nowhere else."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from onnx import helper, numpy_helper

from gradskip_onnx.surgeon.private_names import (
    detach,
    held_as,
    node_proto,
    opset_imports,
    peek,
    port_proto,
    read_from,
    sparse_proto,
    tensor_proto,
    unread_proto,
)

ROOT = Path(__file__).parent.parent.parent
WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)
PRIVATE = re.compile(
    r"\._values\b|LazyValues|SparseValues|OnnxExporter\b|OnnxImporter|update_import_domains|onnx_graphsurgeon\.\w"
)


def graph() -> gs.Graph:
    """y = x @ w + s, w stored densely and s sparsely, with a domain that only a node names."""
    values = helper.make_tensor("s", onnx.TensorProto.FLOAT, [1], [7.0])
    indices = helper.make_tensor("s_at", onnx.TensorProto.INT64, [1], [2])
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node("MatMul", ["x", "w"], ["xw"], name="product"),
                helper.make_node("Add", ["xw", "s"], ["sum"], name="sum"),
                helper.make_node("Gelu", ["sum"], ["y"], name="gelu", domain="com.microsoft"),
            ],
            "small",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 2])],
            [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 3])],
            [numpy_helper.from_array(WEIGHT, "w")],
            sparse_initializer=[helper.make_sparse_tensor(values, indices, [3])],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    return gs.import_onnx(model)


def test_the_version_is_capped_where_the_names_are_known():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (asked,) = [entry for entry in project["dependencies"] if entry.startswith("onnx-graphsurgeon")]
    assert asked == "onnx-graphsurgeon>=0.6,<0.7"
    assert version("onnx-graphsurgeon").startswith("0.6.")


def test_no_other_file_uses_private_names():
    files = [path for top in ("gradskip_onnx", "exporters", "cli", "benchmarks") for path in (ROOT / top).rglob("*.py")]
    others = [path for path in files if path != ROOT / "gradskip_onnx" / "surgeon" / "private_names.py"]
    using = [path for path in others if PRIVATE.search(path.read_text(encoding="utf-8"))]
    assert len(others) == len(files) - 1
    assert using == []


def test_a_stored_tensor_stays_unread():
    weight = graph().tensors()["w"]
    proto = unread_proto(weight)
    assert held_as(weight) == "proto"
    assert proto is not None
    assert proto.name == "w"
    np.testing.assert_array_equal(peek(weight), WEIGHT)
    assert held_as(weight) == "proto", "peeking must not hold what it read"
    np.testing.assert_array_equal(weight.values, WEIGHT)
    assert held_as(weight) == "array"
    assert unread_proto(weight) is None


def test_values_can_be_read_from_elsewhere():
    weight, read = graph().tensors()["w"], Mock(return_value=2 * WEIGHT)
    read_from(weight, read)
    assert held_as(weight) == "file"
    assert (tuple(weight.shape), weight.dtype) == (WEIGHT.shape, WEIGHT.dtype)
    assert not read.called, "shape and element type are known without reading"
    np.testing.assert_array_equal(peek(weight), 2 * WEIGHT)
    assert unread_proto(weight) is tensor_proto(weight), "an export hands on the tensor of the file"
    np.testing.assert_array_equal(weight.values, 2 * WEIGHT)


def test_sparse_values():
    stored = graph().tensors()["s"]
    assert held_as(stored) == "sparse"
    assert unread_proto(stored) is None
    np.testing.assert_array_equal(peek(stored), [0, 0, 7])
    assert list(sparse_proto(stored).dims) == [3]


def test_export_of_single_things():
    made = graph()
    product, _, gelu = (node_proto(node) for node in made.nodes)
    assert (product.op_type, list(product.input), list(product.output)) == ("MatMul", ["x", "w"], ["xw"])
    assert (gelu.name, gelu.domain) == ("gelu", "com.microsoft")
    assert port_proto(made.inputs[0]).type.tensor_type.shape.dim[0].dim_param == "batch"
    assert not port_proto(gs.Variable("open")).type.tensor_type.elem_type
    np.testing.assert_array_equal(numpy_helper.to_array(tensor_proto(gs.Constant("c", WEIGHT))), WEIGHT)


def test_a_copy_of_a_graph_shares_unread_weights():
    made = graph()
    assert unread_proto(made.copy().tensors()["w"]) is unread_proto(made.tensors()["w"])


@pytest.mark.parametrize(("domain", "number"), [("", 17), ("com.microsoft", 1)])
def test_operator_sets_of_all_nodes_are_named(domain: str, number: int):
    assert (domain, number) in [(entry.domain, entry.version) for entry in opset_imports(graph())]


def test_nodes_are_cut_off_at_once():
    made = graph()
    product, total, gelu = made.nodes
    x, xw = made.inputs[0], product.outputs[0]
    more = gs.Node("Abs", inputs=[xw, x], outputs=[gs.Variable("z")])
    detach([total, more])
    assert [list(tensor.outputs) for tensor in (x, xw)] == [[product], []]
    assert [(list(node.inputs), list(node.outputs)) for node in (total, more)] == [([], [])] * 2
    assert gelu.inputs[0].inputs == []
