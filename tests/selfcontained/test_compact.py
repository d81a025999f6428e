"""What is added to a graph: short names that hide none of the model's, no names of nodes, no constant twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import gradskip_onnx
from gradskip_onnx.demo import demo_model
from gradskip_onnx.methods import choose_method
from gradskip_onnx.selfcontained.compact import make_compact
from gradskip_onnx.selfcontained.method_file import BuildSettings
from tests.support.built_files import build_into, nodes_of, run, session_of

FIXTURES = Path(__file__).parent.parent / "fixtures"
OWN = ("x", "g/0", "y")  # one is called as an added tensor would be


def small_graph() -> onnx.GraphProto:
    """y = x + 1 is the model; z = y + 1 + 2 where `switch` holds, else y, is added, with 1 in two constants."""
    values = {"g/0": 1.0, "one again": 1.0, "two": 2.0}
    inside = [
        helper.make_node("Add", ["y", "one again"], ["some long name"], name="added"),
        helper.make_node("Add", ["some long name", "two"], ["then"], name="added too"),
    ]
    port = helper.make_tensor_value_info
    bodies = {
        "then_branch": helper.make_graph(inside, "then", [], [port("then", 1, [2])]),
        "else_branch": helper.make_graph(
            [helper.make_node("Identity", ["y"], ["else"], name="same")], "else", [], [port("else", 1, [2])]
        ),
    }
    nodes = [
        helper.make_node("Add", ["x", "g/0"], ["y"], name="own"),
        helper.make_node("If", ["switch"], ["z"], name="choose", **bodies),
    ]
    constants = [numpy_helper.from_array(np.array([value], np.float32), name) for name, value in values.items()]
    inputs = [port("x", 1, [2]), port("switch", onnx.TensorProto.BOOL, [])]
    return helper.make_graph(nodes, "small", inputs, [port("y", 1, [2]), port("z", 1, [2])], constants)


def model_of(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("switch", "expected"), [(True, [4.0, 6.0]), (False, [1.0, 3.0])])
def test_the_function_stays_and_no_name_of_the_model_is_hidden(switch: bool, expected: list[float], tmp_path: Path):
    graph = small_graph()
    make_compact(graph, OWN, {"own"})
    onnx.save(model_of(graph), tmp_path / "small.onnx")
    onnx.checker.check_model(str(tmp_path / "small.onnx"), full_check=True)
    found = run(session_of(tmp_path / "small.onnx"), np.array([0, 2], np.float32), switch=np.array(switch))

    assert found["z"].tolist() == expected
    assert found["y"].tolist() == [1.0, 3.0]
    assert graph.node[0] == helper.make_node("Add", ["x", "g/0"], ["y"], name="own")


def test_names_are_short_and_equal_added_constants_are_one():
    graph = small_graph()
    constants = [*graph.initializer, numpy_helper.from_array(np.array([2], np.float32), "two again")]
    graph.initializer.append(constants[-1])
    graph.node[1].attribute[1].g.node[0].CopyFrom(helper.make_node("Mul", ["y", "two again"], ["else"], name="same"))
    make_compact(graph, OWN, {"own"})
    made = {output for node in nodes_of(graph) for output in node.output} - {"y", "z"}
    held = [tensor.name for tensor in graph.initializer]

    assert [node.name for node in nodes_of(graph)] == ["own", *[""] * 4]
    assert "g/0" not in made
    assert all(len(name) == 3 and name.startswith("g/") for name in [*made, *held])
    assert len(held) == len(set(held)) == 3  # the model's 1 stays its own


@pytest.mark.slow
@pytest.mark.parametrize("top", [0, 3])
@pytest.mark.parametrize("method", ["gradskip+", "gradskip", "attnlrp"])
@pytest.mark.parametrize(
    "source", [demo_model, lambda: FIXTURES / "deit_distilled.onnx", lambda: FIXTURES / "segformer.onnx"]
)
def test_a_file_is_at_most_a_twentieth_larger_than_its_source(
    source: Callable[[], Path], method: str, top: int, tmp_path: Path
):
    """Also of models below a megabyte, of which a graph is a large part."""
    explainer = gradskip_onnx.load(source(), "cpu", threads=1)
    path = build_into(tmp_path, explainer, BuildSettings(choose_method(method), top=top))
    file = onnx.load(path)
    names = Counter(output for node in nodes_of(file.graph) for output in node.output)

    assert path.stat().st_size <= 1.05 * source().stat().st_size
    assert max(names.values()) == 1
