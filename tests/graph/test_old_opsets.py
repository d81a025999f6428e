"""Files below opset 13: converted, and the softmax that the converter flattens is whole again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import version_converter

import gradskip_onnx
from gradskip_onnx.errors import UnsupportedModelError
from tests.support.models import Vit, vit
from tests.support.relevance import assert_same, explain

# What opset 7 can say: no Expand for a class token (8), no Erf (9).
PLAIN = Vit(special=0, decomposed_norm=True, tanh_gelu=True, opset=13)
WITH_CLASS_TOKEN = Vit(decomposed_norm=True, opset=13)


def as_torch_writes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Shapes computed from the batch, so that onnx's converter knows no ranks; the axis of Softmax as a number."""
    inserted: list[onnx.NodeProto] = [
        onnx.helper.make_node("Shape", ["image"], ["image_shape"], name="image_shape"),
        onnx.helper.make_node("Gather", ["image_shape", "zero"], ["images"], name="images"),
    ]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0], np.int64), "zero"))
    shapes = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Softmax":
            node.attribute[0].i = 3
        if node.op_type == "Reshape" and shapes[node.input[1]][0] in (-1, 0):
            rest = f"{node.name}_rest"
            model.graph.initializer.append(onnx.numpy_helper.from_array(shapes[node.input[1]][1:], rest))
            joined = [f"{node.name}_shape"]
            inserted.append(onnx.helper.make_node("Concat", ["images", rest], joined, name=joined[0], axis=0))
            node.input[1] = joined[0]
    nodes = [*inserted, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    del model.graph.value_info[:]
    onnx.checker.check_model(model)
    return model


@pytest.mark.parametrize(
    ("opset", "shape"),
    [*((opset, PLAIN) for opset in range(7, 13)), *((opset, WITH_CLASS_TOKEN) for opset in range(9, 13))],
)
def test_files_of_old_opsets_are_explained_as_newer_ones(opset: int, shape: Vit):
    model = as_torch_writes(vit(replace(shape, opset=opset)))
    converted = version_converter.convert_version(model, 13)
    claims = [proof.claim for proof in gradskip_onnx.inspect(model.SerializeToString()).proofs]

    assert sum(node.op_type == "Flatten" for node in converted.graph.node) == shape.depth  # else this tests nothing
    assert claims.count("a softmax over the last axis gives what the flattened one gave") == shape.depth
    assert_same(explain(model), explain(vit(shape)))
    assert_same(explain(converted), explain(vit(shape)))


def test_a_softmax_over_several_axes_is_not_taken_for_attention():
    """With axis 2 a row of Softmax is all queries and keys of a head: not the attention of a token."""
    model = as_torch_writes(vit(replace(PLAIN, opset=12)))
    for node in model.graph.node:
        if node.op_type == "Softmax":
            node.attribute[0].i = 2
    with pytest.raises(UnsupportedModelError) as refusal:
        gradskip_onnx.inspect(model.SerializeToString())
    assert refusal.value.code == "attention-layout"
