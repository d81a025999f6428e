"""Model files that are damaged, hostile or odd: one line or the same map, never a traceback, a hang or a wrong map."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import gradskip_onnx
from gradskip_onnx.errors import InputError, ModelError
from gradskip_onnx.graph.architecture import read
from gradskip_onnx.graph.read.load import load
from gradskip_onnx.limits import ELEMENTS, NODES, Limit
from tests.support.command_line import fails, program, run
from tests.support.models import FLOAT, INT64, vit

IMAGE = np.random.default_rng(1).standard_normal((1, 3, 32, 32)).astype(np.float32)
METHODS = ("gradskip", "gradskip+", "attnlrp", "legrad")
Spoil = Callable[[onnx.ModelProto], None]


def spoiled(spoil: Spoil) -> onnx.ModelProto:
    model = vit()
    spoil(model)
    return model


def maps(model: onnx.ModelProto) -> list[Any]:
    explainer = gradskip_onnx.load(model.SerializeToString())
    return [explainer.explain(IMAGE, method=method)[0].map for method in METHODS]


def first(model: onnx.ModelProto, op: str) -> onnx.NodeProto:
    found: onnx.NodeProto = next(node for node in model.graph.node if node.op_type == op)
    return found


def between_blocks(model: onnx.ModelProto, nodes: list[onnx.NodeProto], last: str) -> None:
    """Let the second block read `last`, which `nodes` make of the tensor called STREAM."""
    norm = [node for node in model.graph.node if node.op_type == "LayerNormalization"][2]
    stream = norm.input[0]
    for node in nodes:
        node.input[:] = [stream if name == "STREAM" else name for name in node.input]
    at = 1 + next(place for place, node in enumerate(model.graph.node) if stream in node.output)
    behind = list(model.graph.node)[at:]
    for node in behind:
        node.input[:] = [last if name == stream else name for name in node.input]
    before = list(model.graph.node)[:at]
    del model.graph.node[:]
    model.graph.node.extend([*before, *nodes, *behind])


def chain(op: str, count: int) -> onnx.ModelProto:
    """A transformer with `count` nodes in a row between its two blocks."""
    model = vit()
    model.graph.initializer.append(numpy_helper.from_array(np.array(1, np.float32), "one"))
    more = ["one"] if op == "Mul" else []
    names = ["STREAM", *(f"chain{at}" for at in range(count))]
    nodes = [helper.make_node(op, [a, *more], [b]) for a, b in pairwise(names)]
    between_blocks(model, nodes, names[-1])
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


def function(name: str, *calls: str) -> onnx.FunctionProto:
    names = ["x", *(f"y{at}" for at in range(len(calls) - 1)), "y"]
    nodes = [
        helper.make_node(op, [a], [b], domain="" if op == "Relu" else "own")
        for op, a, b in zip(calls, names, names[1:], strict=False)
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["x"], ["y"], nodes, opsets)


def with_functions(model: onnx.ModelProto, *functions: onnx.FunctionProto) -> None:
    model.functions.extend(functions)
    model.opset_import.append(helper.make_opsetid("own", 1))
    between_blocks(model, [helper.make_node(functions[-1].name, ["STREAM"], ["called"], domain="own")], "called")


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


def accepted(model: onnx.ModelProto) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with contextlib.suppress(Exception):
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return True
    return False


@pytest.mark.parametrize(
    "spoil", [*(REFUSED.keys() - {exponential_functions}), duplicated_output], ids=lambda spoil: spoil.__name__
)
def test_what_onnx_runtime_refuses_is_not_explained(spoil: Spoil):
    model = spoiled(spoil)
    if not accepted(model):
        with pytest.raises(gradskip_onnx.GradskipError):
            gradskip_onnx.load(model.SerializeToString())


# --- weights in other files -------------------------------------------------------------------------------------------


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


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("op", ["Mul", "Relu"])
def test_time_is_linear_in_nodes(op: str):
    """Four times the nodes may take eight times as long, not sixteen."""
    seconds = []
    for count in (1000, 4000):
        model = chain(op, count).SerializeToString()
        start = time.process_time()
        read(load(model))
        seconds.append(time.process_time() - start)

    assert seconds[1] < 8 * seconds[0]


@pytest.mark.slow
@pytest.mark.parametrize("op", ["Mul", "Relu"])
def test_a_chain_of_3000_nodes_is_explained(op: str):
    """A product with one, and what is positive already, change nothing; only rounding may differ."""
    for one, other in zip(maps(chain(op, 1)), maps(chain(op, 3000)), strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5 * np.abs(one).max())


@pytest.mark.slow
def test_nodes_in_reverse_order_take_no_stack():
    """ONNX asks for sorted nodes, ONNX Runtime for none in particular."""
    model = chain("Relu", 3000)
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)

    assert accepted(model)
    assert len(read(load(model.SerializeToString())).architecture.blocks) == 2


def test_loops_without_end_are_ended(monkeypatch: pytest.MonkeyPatch):
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Abs", ["x"], ["y"])],
        "body",
        [helper.make_tensor_value_info("i", INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("x", FLOAT, None)],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("y", FLOAT, None)],
    )  # fmt: skip
    model = vit()
    stored = {"times": np.int64(1 << 60), "yes": np.array(True)}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), name) for name, v in stored.items())
    between_blocks(model, [helper.make_node("Loop", ["times", "yes", "STREAM"], ["looped"], body=body)], "looped")
    monkeypatch.setenv("GRADSKIP_MAX_DRY_RUN_SECONDS", "1")

    with pytest.raises(ModelError, match="took more than 1 seconds"):
        read(load(model.SerializeToString()))


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_limit_can_be_raised_and_lowered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(NODES.variable, "10")
    with pytest.raises(ModelError, match=r"more than the limit of 10; .*GRADSKIP_MAX_NODES"):
        load(vit().SerializeToString())
    monkeypatch.setenv(NODES.variable, "1000")
    load(vit().SerializeToString())


@pytest.mark.parametrize("text", ["many", "-1", "1.5", "9" * 30])
def test_a_limit_that_is_no_number_is_said(text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADSKIP_MAX_THINGS", text)
    with pytest.raises(InputError, match="GRADSKIP_MAX_THINGS"):
        Limit("THINGS", 1, "things").check(1, "it")


# --- names and noise --------------------------------------------------------------------------------------------------


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
