"""Files that cost far more than they weigh, and files whose bytes are scrambled."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .case import pick
from .model_table import SMALL, damage, scrambles

Rng = np.random.Generator
IMAGE_TYPE = TensorProto.FLOAT


def _constant(model: onnx.ModelProto, name: str, value: object, dtype: type[np.generic]) -> str:
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(value, dtype), name))
    return name


def _add_to_output(model: onnx.ModelProto, nodes: list[onnx.NodeProto], value: str) -> None:
    """Nodes put before the last one, and the sum of a value of theirs added to the scores."""
    output = model.graph.output[0].name
    last = next(node for node in model.graph.node if output in node.output)
    last.output[list(last.output).index(output)] = "bomb_scores"
    total = helper.make_node("ReduceSum", [value], ["bomb_sum"], keepdims=0)
    model.graph.node.extend([*nodes, total, helper.make_node("Add", ["bomb_scores", "bomb_sum"], [output])])


@damage("Expand bomb", alone=True, seeds=SMALL)
def expand(model: onnx.ModelProto, rng: Rng) -> str:
    dims = [int(n) for n in pick(rng, ((2**31,), (2**16, 2**16), (40000, 40000), (2**62, 4), (2**20, 3, 999)))]
    source = _constant(model, "bomb", 0, np.float32) if rng.random() < 0.5 else "bomb_scores"
    dims = dims if source == "bomb" else [*dims, *(1 for _ in model.graph.output[0].type.tensor_type.shape.dim)]
    node = helper.make_node("Expand", [source, _constant(model, "bomb_dims", dims, np.int64)], ["bombed"])
    _add_to_output(model, [node], "bombed")
    return f"{source} expanded to {dims}"


@damage("ConstantOfShape bomb", alone=True, seeds=SMALL)
def constant_of_shape(model: onnx.ModelProto, rng: Rng) -> str:
    dims = pick(rng, ([2**32], [2**16, 2**17], [2**31, 2**31], [-5], [30000, 30000]))
    node = helper.make_node("ConstantOfShape", [_constant(model, "bomb_dims", dims, np.int64)], ["bombed"])
    _add_to_output(model, [node], "bombed")
    return f"zeros of {dims}"


@damage("OneHot bomb", alone=True, seeds=SMALL)
def one_hot(model: onnx.ModelProto, rng: Rng) -> str:
    depth, count = int(pick(rng, (10**9, 2**31, 2**40, 10**6))), int(pick(rng, (1, 1000, 4000)))
    places = _constant(model, "bomb_places", np.zeros(count), np.int64)
    both = [_constant(model, "bomb_depth", depth, np.int64), _constant(model, "bomb_values", [0, 1], np.float32)]
    _add_to_output(model, [helper.make_node("OneHot", [places, *both], ["bombed"])], "bombed")
    return f"{count} places of depth {depth}"


@damage("Range bomb", alone=True, seeds=SMALL)
def counting(model: onnx.ModelProto, rng: Rng) -> str:
    end = float(pick(rng, (1e9, 1e12, np.inf, np.nan)))
    inputs = [_constant(model, f"bomb_{i}", value, np.float32) for i, value in enumerate((0, end, 1))]
    _add_to_output(model, [helper.make_node("Range", inputs, ["bombed"])], "bombed")
    return f"numbers up to {end}"


@damage("Tile or Pad bomb", alone=True, seeds=SMALL)
def tile(model: onnx.ModelProto, rng: Rng) -> str:
    kind, count = pick(rng, ("Tile", "Pad")), int(pick(rng, (2**31, 10**9, 2**60)))
    inputs = [_constant(model, "bomb", [1.0], np.float32)]
    inputs.append(_constant(model, "bomb_counts", [count] if kind == "Tile" else [0, count], np.int64))
    _add_to_output(model, [helper.make_node(kind, inputs, ["bombed"])], "bombed")
    return f"{kind} of {count}"


@damage("doubling chain", alone=True, seeds=SMALL)
def doubling(model: onnx.ModelProto, rng: Rng) -> str:
    """Each Concat doubles its input: 2^n numbers by n nodes."""
    length = int(rng.integers(25, 45))
    first = _constant(model, "double_0", [1.0], np.float32)
    steps = [helper.make_node("Concat", [f"double_{i}"] * 2, [f"double_{i + 1}"], axis=0) for i in range(length)]
    _add_to_output(model, steps, f"double_{length}" if length else first)
    return f"2^{length} numbers"


@damage("long chain", alone=True, seeds=SMALL)
def long_chain(model: onnx.ModelProto, rng: Rng) -> str:
    length, kind = int(pick(rng, (300, 1000, 3000, 5000))), pick(rng, ("Relu", "Mul", "Identity", "Add"))
    output = model.graph.output[0].name
    last = next(node for node in model.graph.node if output in node.output)
    last.output[list(last.output).index(output)] = "link_0"
    one = [_constant(model, "link_one", 1.0, np.float32)] if kind in ("Mul", "Add") else []
    for i in range(length):
        target = output if i == length - 1 else f"link_{i + 1}"
        model.graph.node.append(helper.make_node(kind, [f"link_{i}", *one], [target]))
    return f"{length} {kind} nodes"


@damage("exploding functions", alone=True, seeds=SMALL)
def exploding(model: onnx.ModelProto, rng: Rng) -> str:
    """Function n calls function n - 1 twice: 2^n nodes once all are written out."""
    depth = int(pick(rng, (6, 12, 20, 30, 60)))
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    for i in range(depth + 1):
        kind, domain = (f"F{i - 1}", "local") if i else ("Relu", "")
        body = [helper.make_node(kind, [a], [b], domain=domain) for a, b in (("x", "m"), ("m", "y"))]
        model.functions.append(helper.make_function("local", f"F{i}", ["x"], ["y"], body, sets))
    model.opset_import.append(helper.make_opsetid("local", 1))
    node = pick(rng, [node for node in model.graph.node if node.op_type in ("Add", "MatMul")])
    model.graph.node.append(helper.make_node(f"F{depth}", [node.output[0]], ["exploded"], domain="local"))
    _add_to_output(model, [], "exploded")
    return f"2^{depth + 1} nodes by {depth + 1} functions"


@damage("deep subgraphs", alone=True, seeds=SMALL)
def deep_subgraphs(model: onnx.ModelProto, rng: Rng) -> str:
    depth = int(pick(rng, (5, 15, 25, 31)))  # protobuf's readers stop at 100 messages, three a graph
    result = [helper.make_tensor_value_info("inner", IMAGE_TYPE, None)]
    graph = helper.make_graph([helper.make_node("Identity", ["bomb_scores"], ["inner"])], "g", [], result)
    for _ in range(depth):
        node = helper.make_node("If", ["flag"], ["inner"], then_branch=graph, else_branch=graph.__class__())
        graph = helper.make_graph([node], "g", [], result)
    model.graph.initializer.append(helper.make_tensor("flag", TensorProto.BOOL, [], [True]))
    _add_to_output(model, list(graph.node), "inner")
    return f"If within If, {depth} deep"


@scrambles("flipped bits")
def flipped(data: bytes, rng: Rng) -> tuple[bytes, str]:
    changed = np.frombuffer(data, np.uint8).copy()
    places = rng.integers(0, len(data), int(pick(rng, (1, 3, 30))))
    changed[places] ^= (1 << rng.integers(0, 8, len(places))).astype(np.uint8)
    return changed.tobytes(), f"{len(places)} bits flipped, the first in byte {places[0]}"


@scrambles("cut short")
def cut(data: bytes, rng: Rng) -> tuple[bytes, str]:
    length = int(pick(rng, (0, 1, 10, len(data) - 1, int(rng.integers(len(data))))))
    return data[:length], f"{length} of {len(data)} bytes"


@scrambles("bytes put in")
def put_in(data: bytes, rng: Rng) -> tuple[bytes, str]:
    place, junk = int(rng.integers(len(data))), rng.bytes(int(pick(rng, (1, 8, 1000))))
    return data[:place] + junk + data[place:], f"{len(junk)} bytes at {place}"


@scrambles("said twice")
def twice(data: bytes, rng: Rng) -> tuple[bytes, str]:
    """Protobuf merges messages that follow each other: every node and weight is there twice."""
    part = data if rng.random() < 0.5 else data[int(rng.integers(len(data))) :]
    return data + part, f"{len(part)} bytes of the file once more"
