"""The products that make patches of the image, and the gradient by which every channel of theirs counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx import TensorProto, helper, numpy_helper

from gradskip_onnx.autodiff.emit import Emit
from gradskip_onnx.autodiff.patch_embeddings import patch_embeddings
from gradskip_onnx.types import TensorFact

FLOAT = TensorProto.FLOAT


def found(nodes: list[onnx.NodeProto], **weights: np.ndarray) -> list[str]:
    """The embeddings of a graph from `image` to `y`."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("image", FLOAT, [1, 3, 4, 4])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return patch_embeddings(Emit(gs.import_onnx(model), {"y": TensorFact((1, 3, 4, 4), np.dtype(np.float32))}, 17), "y")


def node(op: str, inputs: str, outputs: str, **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


def test_the_first_product_and_no_later_one():
    nodes = [node("Relu", "image", "a"), node("Conv", "a w", "b"), node("Conv", "b w", "y")]
    assert found(nodes, w=np.ones((3, 3, 1, 1), np.float32)) == ["b"]


def test_a_measured_scale_is_no_way_around_the_product():
    """As ONNX Runtime quantises: the scale of the image goes around the product and is multiplied behind it."""
    nodes = [
        node("DynamicQuantizeLinear", "image", "q scale zero"),
        node("ConvInteger", "q w zero", "b"),
        node("Cast", "b", "c", to=FLOAT),
        node("Mul", "c scale", "d"),
        node("Conv", "d v", "y"),
    ]
    assert found(nodes, w=np.ones((3, 3, 1, 1), np.uint8), v=np.ones((3, 3, 1, 1), np.float32)) == ["b"]


def test_two_products_side_by_side_and_none_that_the_score_does_not_read():
    nodes = [
        node("Conv", "image w", "a"),
        node("Conv", "image w", "b"),
        node("Conv", "image w", "dead"),
        node("Add", "a b", "y"),
    ]
    assert sorted(found(nodes, w=np.ones((3, 3, 1, 1), np.float32))) == ["a", "b"]
