"""The same function written in another way: names, order, constants, identities, other files, other operator sets."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper, numpy_helper, version_converter

from .case import EXPLAIN, MODEL, Scene, Trial, pick
from .model_table import keeps, whole, write
from .model_tensors import WEIGHTS, spread
from .seeds import FLOAT, MODELS, model_bytes

Rng = np.random.Generator
OWN_NAMES = ("target", "seed", "gradient", "image", "logits", "scores", "gradskip_0", "backward_0", "grad", "class")


def _rename(model: onnx.ModelProto, name: Callable[[str], str]) -> None:
    """Every use of a value gets the name that the function gives; the empty name stays."""
    graph = model.graph
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [value and name(value) for value in names]
    for entry in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
        entry.name = name(entry.name)


def _nodes(model: onnx.ModelProto, nodes: list[onnx.NodeProto]) -> None:
    kept = [copy.deepcopy(node) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(kept)


@keeps("values renamed")
def values_renamed(model: onnx.ModelProto, rng: Rng) -> str:
    form = pick(rng, ("{}", "x{}", "/a/b:{}", "é{}", "{}\x1b[31m", "n{}" * 30))
    fresh: dict[str, str] = {}
    _rename(model, lambda value: fresh.setdefault(value, form.replace("{}", str(len(fresh)))))
    return f"values called {form[:12]!r}"


@keeps("values named like ours")
def own_names(model: onnx.ModelProto, rng: Rng) -> str:
    """A consistent renaming of some values onto names that this library may use itself."""
    taken = {name for node in model.graph.node for name in node.output}
    taken |= {entry.name for entry in (*model.graph.input, *model.graph.initializer)}
    free = [name for name in OWN_NAMES if name not in taken]
    chosen = dict(zip(rng.permutation(sorted(taken)).tolist(), free, strict=False))
    _rename(model, lambda value: chosen.get(value, value))
    return f"{chosen}"


@keeps("nodes named alike")
def nodes_alike(model: onnx.ModelProto, rng: Rng) -> str:
    name = pick(rng, ("", "node", "target", "/", "\x1b[31m"))
    for node in model.graph.node:
        node.name = name
    return f"all nodes called {name!r}"


@keeps("nodes in another order")
def reordered(model: onnx.ModelProto, rng: Rng) -> str:
    """A random one of the orders in which every value comes before its use."""
    waiting, order = list(model.graph.node), []
    made = {name for node in waiting for name in node.output}
    while waiting:
        ready = [i for i, node in enumerate(waiting) if made.isdisjoint(node.input)]
        node = waiting.pop(pick(rng, ready))
        made -= set(node.output)
        order.append(node)
    _nodes(model, order)
    return "another order"


@keeps("dead nodes")
def dead_nodes(model: onnx.ModelProto, rng: Rng) -> str:
    names = [node.output[0] for node in model.graph.node if node.op_type in ("Add", "MatMul", "Softmax", "Conv")]
    for i in range(int(rng.integers(1, 6))):
        model.graph.node.append(
            helper.make_node(pick(rng, ("Relu", "Softmax", "Neg")), [pick(rng, names)], [f"dead{i}"])
        )
    return f"dead nodes up to dead{i}"


@keeps("identities")
def identities(model: onnx.ModelProto, rng: Rng) -> str:
    """Identity nodes before some inputs of some nodes."""
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        for place, value in enumerate(node.input):
            if value and rng.random() < 0.1:
                fresh = f"same{len(nodes)}_{place}"
                nodes.append(helper.make_node("Identity", [value], [fresh]))
                node.input[place] = fresh
        nodes.append(node)
    added = len(nodes) - len(model.graph.node)
    _nodes(model, nodes)
    return f"{added} identities"


@keeps("initialisers as Constant nodes")
def unfolded(model: onnx.ModelProto, rng: Rng) -> str:
    chosen = [tensor for tensor in model.graph.initializer if rng.random() < 0.5]
    nodes = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in chosen]
    names = {tensor.name for tensor in chosen}
    kept = [copy.deepcopy(tensor) for tensor in model.graph.initializer if tensor.name not in names]
    _nodes(model, [*nodes, *model.graph.node])
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    return f"{len(nodes)} constants"


@keeps("initialisers as inputs with defaults")
def old_inputs(model: onnx.ModelProto, rng: Rng) -> str:
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    if rng.random() < 0.5:
        model.ir_version = 3
    return f"IR {model.ir_version}"


@keeps("weights in typed fields")
def typed_fields(model: onnx.ModelProto, rng: Rng) -> str:
    for tensor in model.graph.initializer:
        if tensor.data_type == FLOAT and rng.random() < 0.5:
            numbers = numpy_helper.to_array(tensor).reshape(-1).tolist()
            tensor.ClearField("raw_data")
            tensor.float_data.extend(numbers)
    return "float_data in place of raw_data"


@keeps("constants split")
def split_constants(model: onnx.ModelProto, rng: Rng) -> str:
    """A weight w as the sum of two constants, w = w + 0."""
    tensor = pick(rng, [tensor for tensor in model.graph.initializer if tensor.data_type == FLOAT])
    name, tensor.name = tensor.name, f"{tensor.name}_part"
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((), np.float32), "nothing"))
    _nodes(model, [helper.make_node("Add", [tensor.name, "nothing"], [name]), *model.graph.node])
    return f"{name} as a sum"


@keeps("inferred shapes")
def inferred(model: onnx.ModelProto, rng: Rng) -> str:  # noqa: ARG001 (one signature for all rows)
    model.CopyFrom(onnx.shape_inference.infer_shapes(model))
    return f"{len(model.graph.value_info)} shapes"


@keeps("documentation and foreign metadata")
def documentation(model: onnx.ModelProto, rng: Rng) -> str:
    text = pick(rng, ("text", "\x1b[31m", "é" * 1000, "{", ""))
    model.doc_string = model.graph.doc_string = model.producer_name = text
    model.metadata_props.add(key="of others", value=text)
    for node in model.graph.node:
        node.doc_string = text
    return f"{text[:12]!r} everywhere"


@keeps("unused parts")
def unused(model: onnx.ModelProto, rng: Rng) -> str:
    shape = [int(rng.integers(1, 9))]
    model.graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.float32), "idle"))
    body = [helper.make_node("Relu", ["x"], ["y"])]
    model.functions.append(helper.make_function("idle", "Idle", ["x"], ["y"], body, list(model.opset_import)))
    model.opset_import.append(helper.make_opsetid("idle", 1))
    return f"an unused weight of {shape} and an unused function"


@keeps("another operator set", seeds=tuple(name for name in MODELS if name != "demo"))
def other_opset(model: onnx.ModelProto, rng: Rng) -> str:
    version = int(rng.integers(18, 22))
    model.CopyFrom(version_converter.convert_version(model, version))
    return f"opset {version}"


@keeps("older operator set", seeds=("vit-plain-norm",))
def older_opset(model: onnx.ModelProto, rng: Rng) -> str:
    """Its operators have meant the same since opset 9: Softmax runs over the last axis."""
    model.opset_import[0].version = int(rng.integers(9, 17))
    return f"opset {model.opset_import[0].version}"


@whole("weights in another file")
def external(scene: Scene) -> Trial:
    seed = pick(scene.rng, tuple(MODELS))
    model = onnx.ModelProto.FromString(model_bytes(seed))
    (scene.folder / WEIGHTS).write_bytes(spread(model))
    write(scene, model.SerializeToString())
    cached = scene.rng.random() < 0.5
    arguments = EXPLAIN if cached else (*EXPLAIN, "--no-cache")
    return Trial(f"{seed}: all weights outside", arguments, MODEL, "same", scene.seed_answer(seed))
