"""Names that nothing has, and the forms in which opsets take axes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from onnx import defs

from gradskip_onnx.surgeon.element_types import numpy_type, onnx_type
from gradskip_onnx.surgeon.node_writer import NodeWriter, names_in
from gradskip_onnx.surgeon.opsets import AXES_INPUT_OPSET, OLDEST_OPSET, reduction_axes


def graph(*names: str) -> gs.Graph:
    x, tensors = gs.Variable("x", np.float32, [2]), [gs.Variable(name, np.float32) for name in names]
    nodes = [gs.Node("Relu", f"relu/{name}", inputs=[x], outputs=[y]) for name, y in zip(names, tensors, strict=True)]
    unread = gs.Variable("unread", np.float32, [1])
    return gs.Graph(nodes, [x, unread], tensors, opset=17)


def test_all_names_are_seen():
    assert names_in(graph("y")) == {"x", "y", "relu/y", "unread"}


def test_taken_names_are_passed_over():
    writer = NodeWriter(graph("gradskip/Add_1", "gradskip/Add_2"), 17)
    assert [writer.name("Add"), writer.name("Add")] == ["gradskip/Add_3", "gradskip/Add_4"]


def test_two_writers_of_one_graph_never_give_one_name():
    """Files may give two nodes one name, and both are rewritten under it."""
    writer = NodeWriter(graph("y"), 17)
    made = [writer.under("gradskip/same/").name("MatMul") for _ in range(3)]
    assert len(set(made)) == 3


def test_a_node_is_appended():
    made = graph("y")
    writer = NodeWriter(made, 17)
    total = writer.variable("Add", np.float32, (2,))
    writer.append("Add", [made.outputs[0], writer.constant([1, 2], np.float32)], [total], {})
    made.outputs = [total]
    onnx.checker.check_model(gs.export_onnx(made.cleanup().toposort()))


REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2")


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("opset", [OLDEST_OPSET, AXES_INPUT_OPSET - 1, AXES_INPUT_OPSET, 21])
def test_axes_are_given_as_the_standard_says(op: str, opset: int):
    schema = defs.get_schema(op, opset)
    inputs, attributes = reduction_axes(op, [1, 2], opset)
    assert bool(inputs) == (len(schema.inputs) == 2)
    assert bool(attributes) == ("axes" in schema.attributes)
    assert [*inputs, *attributes.values()] == [[1, 2]]


@pytest.mark.parametrize("kind", [np.float32, "int64", np.dtype("float16"), np.bool_])
def test_element_types_go_both_ways(kind: object):
    assert numpy_type(onnx_type(kind)) == np.dtype(kind)  # type: ignore[call-overload]


def test_types_that_numpy_lacks():
    assert numpy_type(onnx.TensorProto.BFLOAT16).name == "bfloat16"
    assert onnx_type(onnx.TensorProto.BFLOAT16) == onnx.TensorProto.BFLOAT16
