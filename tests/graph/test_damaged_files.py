"""Model files that are damaged or hostile: one line, never a traceback, and no map of what ONNX Runtime refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import gradskip_onnx
from gradskip_onnx.limits import ELEMENTS, NODES
from tests.support.altered_models import accepted, between_blocks, first, function, with_functions
from tests.support.command_line import fails, run
from tests.support.models import FLOAT, INT64, vit

Spoil = Callable[[onnx.ModelProto], None]


def spoiled(spoil: Spoil) -> onnx.ModelProto:
    model = vit()
    spoil(model)
    return model


# --- files that ONNX Runtime refuses, and such as nobody can read -----------------------------------------------------


def duplicated_initialiser(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(model.graph.initializer[0])


def duplicated_small_initialiser(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(model.graph.initializer[2])


def duplicated_attribute(model: onnx.ModelProto) -> None:
    node = first(model, "Conv")
    node.attribute.append(node.attribute[0])


def contradicting_value_info(model: onnx.ModelProto) -> None:
    name = first(model, "Conv").output[0]
    model.graph.value_info.append(helper.make_tensor_value_info(name, INT64, [1]))


def extra_output(model: onnx.ModelProto) -> None:
    model.graph.output.append(helper.make_tensor_value_info("nowhere", FLOAT, [1]))


def cycle(model: onnx.ModelProto) -> None:
    adds = [node for node in model.graph.node if node.op_type == "Add"]
    adds[0].input[0] = adds[-1].output[0]


def output_is_initialiser(model: onnx.ModelProto) -> None:
    model.graph.output[0].name = model.graph.initializer[0].name


def rewired_output(model: onnx.ModelProto) -> None:
    first(model, "Softmax").output[0] = first(model, "Conv").output[0]


def duplicated_output(model: onnx.ModelProto) -> None:
    model.graph.output.append(model.graph.output[0])


def wrong_dtype(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].data_type = TensorProto.DOUBLE


def unknown_dtype(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].data_type = 99


def short_raw_data(model: onnx.ModelProto) -> None:
    tensor = model.graph.initializer[0]
    tensor.raw_data = tensor.raw_data[:-3]


def huge_dims(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = 1 << 31


def negative_dims(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = -5


def attribute_not_utf8(model: onnx.ModelProto) -> None:
    first(model, "Conv").attribute.append(
        onnx.AttributeProto(name="auto_pad", s=b"\xff\xfe", type=onnx.AttributeProto.STRING)
    )


def reference_outside_functions(model: onnx.ModelProto) -> None:
    first(model, "Softmax").attribute[0].ref_attr_name = "outer"


def unknown_domain(model: onnx.ModelProto) -> None:
    first(model, "Softmax").domain = "no.such.domain"


def no_opset(model: onnx.ModelProto) -> None:
    model.opset_import[0].domain = "no.such.domain"


def image_of_2_31(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 1 << 31


def duplicate_function(model: onnx.ModelProto) -> None:
    with_functions(model, function("twice", "Relu"), function("twice", "Relu"))


def recursive_function(model: onnx.ModelProto) -> None:
    with_functions(model, function("one", "other"), function("other", "one"))


def exponential_functions(model: onnx.ModelProto) -> None:
    """f30 calls f29 twice, which calls f28 twice, and so on: 2^30 nodes."""
    bodies = [function("f0", "Relu"), *(function(f"f{n}", f"f{n - 1}", f"f{n - 1}") for n in range(1, 31))]
    with_functions(model, *bodies)


def bomb(op: str, *shape: int) -> Spoil:
    """A tensor of that shape, of which one element is added to the stream."""

    def spoil(model: onnx.ModelProto) -> None:
        stored = {
            "sizes": np.array(shape, np.int64),
            "depth": np.int64(shape[0]),
            "ends": np.array([0.0, 1.0], np.float32),
        }
        stored |= {"zeros": np.zeros(shape[1:], np.int64), "none": np.float32(0)}
        model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), name) for name, v in stored.items())
        inputs = {"Expand": ["none", "sizes"], "ConstantOfShape": ["sizes"], "OneHot": ["zeros", "depth", "ends"]}[op]
        nodes = [
            helper.make_node(op, inputs, ["large"], name="bomb"),
            helper.make_node("ReduceMax", ["large"], ["small"], keepdims=0),
            helper.make_node("Add", ["STREAM", "small"], ["added"]),
        ]
        between_blocks(model, nodes, "added")

    return spoil


def empty_axes(model: onnx.ModelProto) -> None:
    """Allowed by ONNX Runtime, which takes it for all axes."""
    mean = helper.make_node("ReduceMean", ["STREAM"], ["mean"], name="mean", axes=[0])
    del mean.attribute[0].ints[:]
    between_blocks(model, [mean, helper.make_node("Add", ["STREAM", "mean"], ["added"])], "added")


# What is spoiled -> what the line must say, besides the name of the file where that is known.
REFUSED: dict[Spoil, str] = {
    duplicated_initialiser: "twice", duplicated_small_initialiser: "twice",
    duplicated_attribute: "Attribute", contradicting_value_info: "Type",
    extra_output: "nowhere", cycle: "", output_is_initialiser: "", rewired_output: "",
    wrong_dtype: "", unknown_dtype: "", short_raw_data: "", huge_dims: "", negative_dims: "",
    attribute_not_utf8: "", reference_outside_functions: "outer", unknown_domain: "no.such.domain", no_opset: "",
    image_of_2_31: ELEMENTS.variable, duplicate_function: "twice", recursive_function: "calls itself",
    exponential_functions: NODES.variable, empty_axes: "'mean' (ReduceMean)",
}  # fmt: skip


@pytest.mark.parametrize("spoil", REFUSED, ids=lambda spoil: spoil.__name__)
def test_refused_in_one_line(spoil: Spoil, tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(spoiled(spoil).SerializeToString())
    result = run("inspect", path)

    assert result.exit_code in (2, 3), result.output
    fails(result, result.exit_code, REFUSED[spoil])
    assert len(result.stderr.splitlines()) == 1


BOMBS = [bomb("Expand", 1 << 20, 1 << 20), bomb("ConstantOfShape", 1 << 40), bomb("OneHot", 1 << 40, 9)]


@pytest.mark.parametrize("spoil", BOMBS, ids=["expand", "constant of shape", "one-hot"])
def test_bombs_are_refused_before_memory_is_spent(spoil: Spoil, tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(spoiled(spoil).SerializeToString())

    fails(run("inspect", path), 2, "'bomb'", ELEMENTS.variable)


# --- differences from ONNX Runtime ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil", [*(REFUSED.keys() - {exponential_functions}), duplicated_output], ids=lambda spoil: spoil.__name__
)
def test_what_onnx_runtime_refuses_is_not_explained(spoil: Spoil):
    model = spoiled(spoil)
    if not accepted(model):
        with pytest.raises(gradskip_onnx.GradskipError):
            gradskip_onnx.load(model.SerializeToString())
