"""Nodes that only hand on what they read change nothing: not the map, not the outputs, not the names of outputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import gradskip_onnx
from gradskip_onnx.demo import demo_model
from gradskip_onnx.graph.architecture import read
from gradskip_onnx.graph.read.assemble import assemble
from gradskip_onnx.graph.read.copies import COPIES
from gradskip_onnx.graph.read.forward import forward_graph
from gradskip_onnx.graph.read.load import load
from gradskip_onnx.types import Array
from tests.support.models import Vit, vit
from tests.support.optimised_files import optimised

FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL
FIXTURES = Path(__file__).parent.parent / "fixtures"
METHODS = ("gradskip", "gradskip+", "attnlrp", "chefer1")  # true gradients, gates, rules, composites


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


# --- maps -------------------------------------------------------------------------------------------------------------


def copied(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with an Identity behind every tensor: inputs, weights, results of nodes."""
    new = onnx.ModelProto()
    new.CopyFrom(model)
    outputs = {output.name for output in model.graph.output}
    stored = [entry.name for entry in (*model.graph.initializer, *model.graph.input)]
    nodes = [node("Identity", name, f"{name}/same") for name in dict.fromkeys(stored)]
    for each in new.graph.node:
        made = [name for name in each.output if name]
        each.input[:] = [name and f"{name}/same" for name in each.input]
        each.output[:] = [f"{name}/made" if name in outputs else name for name in each.output]
        nodes.append(each)
        for name in made:
            nodes.append(node("Identity", f"{name}/made" if name in outputs else name, f"{name}/same"))
            nodes += [node("Identity", f"{name}/same", name)] if name in outputs else []
    nodes = [onnx.NodeProto.FromString(each.SerializeToString()) for each in nodes]
    del new.graph.node[:], new.graph.value_info[:]
    new.graph.node.extend(nodes)
    return new


def fused(folder: Path) -> onnx.ModelProto:
    model = optimised(vit(Vit(batch=1)), "EXTENDED", folder)
    assert any(node.domain == "com.microsoft" for node in model.graph.node)  # else this tests nothing
    return model


FILES: dict[str, Callable[[Path], onnx.ModelProto]] = {
    "demo": lambda _: onnx.load(demo_model()),
    "fused": fused,
    "DeiT as torch writes it": lambda _: onnx.load(FIXTURES / "deit_distilled.onnx"),
}


def answers(model: onnx.ModelProto) -> list[Array]:
    explainer = gradskip_onnx.load(model.SerializeToString(), cache=False)
    dims = explainer.architecture.input_dims
    images = np.random.default_rng(4).standard_normal((1, *dims)).astype(np.float32)
    found = [explainer.explain(images, 1, method=method)[0] for method in METHODS]
    return [array for one in found for array in (one.map, one.relevance.scores)]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_identities_behind_every_tensor_keep_every_map(name: str, tmp_path: Path):
    model = FILES[name](tmp_path)

    for found, expected in zip(answers(copied(model)), answers(model), strict=True):
        np.testing.assert_array_equal(found, expected)


# --- outputs ----------------------------------------------------------------------------------------------------------


def graph(nodes: list[onnx.NodeProto], outputs: dict[str, int], **value_types: int) -> onnx.ModelProto:
    """A model of these nodes that reads `image`, `stored` (three numbers) and `no` (false)."""
    stored = [
        numpy_helper.from_array(np.array([1.5, -2, 3], np.float32), "stored"),
        numpy_helper.from_array(np.array(False), "no"),
    ]
    made = helper.make_graph(
        nodes,
        "copies",
        [helper.make_tensor_value_info("image", FLOAT, [1, 3, 4, 4])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        stored,
        value_info=[helper.make_tensor_value_info(name, kind, None) for name, kind in value_types.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def branches(outer: str) -> dict[str, onnx.GraphProto]:
    """Bodies of an If that read `outer`."""
    result = [helper.make_tensor_value_info("inner", FLOAT, None)]
    return {
        "then_branch": helper.make_graph([node("Neg", outer, "inner")], "then", [], result),
        "else_branch": helper.make_graph([node("Abs", outer, "inner")], "else", [], result),
    }


# name -> the model, and the operators that are left
CASES: dict[str, tuple[onnx.ModelProto, list[str]]] = {
    "between nodes": (
        graph([node("Neg", "image", "x"), node("Identity", "x", "y"), node("Abs", "y", "z")], {"z": FLOAT}),
        ["Neg", "Abs"],
    ),
    "chain to an output, whose original is read too": (
        graph(
            [node("Neg", "image", "x"), node("Identity", "x", "y"), node("Identity", "y", "z"), node("Abs", "x", "w")],
            {"z": FLOAT, "w": FLOAT},
        ),
        ["Neg", "Abs"],
    ),
    "from input to output": (
        graph([node("Identity", "image", "y"), node("Neg", "y", "z")], {"y": FLOAT, "z": FLOAT}),
        ["Identity", "Neg"],
    ),
    "a weight as an output": (
        graph([node("Identity", "stored", "y"), node("Neg", "image", "z")], {"y": FLOAT, "z": FLOAT}),
        ["Identity", "Neg"],
    ),
    "three outputs of one value": (
        graph(
            [node("Neg", "image", "x"), node("Identity", "x", "y"), node("Identity", "x", "z")],
            {"z": FLOAT, "x": FLOAT, "y": FLOAT},
        ),
        ["Identity", "Identity", "Neg"],
    ),
    "two outputs of one value that has neither name": (
        graph(
            [node("Neg", "image", "x"), node("Identity", "x", "y"), node("Identity", "x", "z")],
            {"z": FLOAT, "y": FLOAT},
        ),
        ["Identity", "Neg"],
    ),
    "read by bodies": (
        graph(
            [node("Neg", "image", "x"), node("Identity", "x", "y"), node("If", "no", "z", **branches("y")),
             node("Add", "y z", "w")],
            {"w": FLOAT},
        ),
        ["Add", "Identity", "If", "Neg"],
    ),
    "an output whose original is read by bodies": (
        graph(
            [node("Neg", "image", "x"), node("Identity", "x", "y"), node("If", "no", "z", **branches("x"))],
            {"y": FLOAT, "z": FLOAT},
        ),
        ["Identity", "If", "Neg"],
    ),
    "dropout": (
        graph([node("Neg", "image", "x"), node("Dropout", "x", "y mask"), node("Abs", "y", "z")], {"z": FLOAT}),
        ["Abs", "Neg"],
    ),
    "dropout that is told not to train": (
        graph([helper.make_node("Dropout", ["image", "", "no"], ["y"]), node("Abs", "y", "z")], {"z": FLOAT}),
        ["Abs"],
    ),
    "dropout whose mask is an output": (
        graph([node("Dropout", "image", "y mask"), node("Abs", "y", "z")], {"z": FLOAT, "mask": BOOL}),
        ["Abs", "Dropout"],
    ),
    "cast to the same type": (
        graph([node("Cast", "image", "y", to=FLOAT), node("Abs", "y", "z")], {"z": FLOAT}),
        ["Abs"],
    ),
    "cast to the same type as the file says": (
        graph(
            [node("Neg", "image", "x"), node("Cast", "x", "y", to=FLOAT), node("Abs", "y", "z")], {"z": FLOAT}, x=FLOAT
        ),
        ["Abs", "Neg"],
    ),
    "cast to another type": (
        graph([node("Cast", "image", "y", to=BOOL), node("Not", "y", "z")], {"z": BOOL}),
        ["Cast", "Not"],
    ),
    "operators of many on one": (
        graph(
            [node("Concat", "image", "a", axis=1), node("Sum", "a", "b"), node("Max", "b", "c"), node("Min", "c", "d"),
             node("Mean", "d", "e"), node("Abs", "e", "z")],
            {"z": FLOAT},
        ),
        ["Abs"],
    ),
    "axes in their order": (
        graph(
            [node("Transpose", "image", "x", perm=[0, 1, 2, 3]), node("Transpose", "x", "y", perm=[0, 1, 3, 2]),
             node("Transpose", "y", "z")],
            {"z": FLOAT},
        ),
        ["Transpose", "Transpose"],
    ),
}  # fmt: skip


def run(model: onnx.ModelProto) -> dict[str, Array]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    image = np.random.default_rng(0).standard_normal((1, 3, 4, 4)).astype(np.float32)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"image": image}), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_copies_are_taken_out_and_outputs_stay_bit_for_bit(name: str):
    model, left = CASES[name]
    plain = assemble(forward_graph(model))
    before, after = run(model), run(plain)

    assert sorted(node.op_type for node in plain.graph.node) == sorted(left)
    assert list(before) == list(after)
    for output, value in before.items():
        np.testing.assert_array_equal(after[output], value)


def test_every_row_is_tried():
    assert {node.op_type for model, _ in CASES.values() for node in model.graph.node} >= set(COPIES)


def test_a_copy_of_probabilities_under_the_name_of_scores_is_no_score():
    """One value under two names of outputs needs a node; the scores are what the softmax reads."""
    model = vit(Vit(probabilities=True))
    last = model.graph.node[-1]
    last.output[0] = "shares"
    model.graph.node.append(node("Identity", "shares", "logits"))
    model.graph.output.append(helper.make_tensor_value_info("shares", FLOAT, ["batch", 5]))

    assert read(load(model.SerializeToString())).architecture.logits == last.input[0]


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, -1])
def test_long_chains_and_many_copies_of_one_tensor_take_linear_time(step: int):
    """Half a minute is many times what it takes; in the square of the nodes it is an hour."""
    count = 10_000
    chain = [node("Identity", f"v{i}" if i else "image", f"v{i + 1}") for i in range(count)]
    copies = [node("Identity", "image", f"w{i}") for i in range(count)]
    ends = [node("Abs", f"v{count}", "z"), node("Sum", " ".join(f"w{i}" for i in range(count)), "s")]
    model = graph([*chain, *copies, *ends][::step], {"z": FLOAT, "s": FLOAT})

    start = monotonic()
    left = forward_graph(model).nodes

    assert sorted(each.op for each in left) == ["Abs", "Sum"]
    assert monotonic() - start < 30
