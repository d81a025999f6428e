"""Rewrites that keep the meaning of a graph never change the answer, alone or in any order."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import gradskip_onnx
from gradskip_onnx.types import Array
from tests.support.models import Vit, vit

MODELS = {
    "class token": Vit(depth=2, special=1),
    "mean, no class token": Vit(depth=2, special=0, size=(16, 32)),
    "decomposed norm": Vit(depth=2, decomposed_norm=True, opset=13),
}
# Splitting a constant or moving a factor changes the order of float32 operations.
ROUNDING = 1e-4
IMAGES: Array = np.asarray(np.random.default_rng(0).standard_normal((1, 3, 32, 32)), np.float32)

Rng = np.random.Generator
Rewrite = Callable[[onnx.ModelProto, Rng], None]


def activations(model: onnx.ModelProto) -> list[str]:
    """Float tensors between nodes, by shape inference."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    floats = {v.name for v in inferred.value_info if v.type.tensor_type.elem_type == TensorProto.FLOAT}
    return [name for node in model.graph.node for name in node.output if name in floats]


def insert_after(model: onnx.ModelProto, tensor: str, chain: list[tuple[str, dict[str, Any]]], mark: int) -> None:
    """Put nodes behind a tensor; whoever read it reads the last of them."""
    place = next(i for i, node in enumerate(model.graph.node) if tensor in node.output) + 1
    names = [tensor, *(f"{tensor}/{mark}/{i}" for i in range(len(chain)))]
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            if name == tensor:
                node.input[i] = names[-1]
    for i, (op, attrs) in enumerate(chain):
        made = helper.make_node(op, [names[i]], [names[i + 1]], name=f"{op}/{mark}/{i}", **attrs)
        model.graph.node.insert(place + i, made)


def rename(model: onnx.ModelProto, rng: Rng) -> None:
    """New names for every tensor and node but the ports."""
    ports = {value.name for value in (*model.graph.input, *model.graph.output)}
    names: dict[str, str] = {}
    stem = f"r{rng.integers(1 << 30)}_"
    for node in model.graph.node:
        node.name = f"{stem}{rng.integers(1 << 60)}"
        for side in (node.input, node.output):
            for i, name in enumerate(side):
                if name and name not in ports:
                    side[i] = names.setdefault(name, f"{stem}{len(names)}")
    for tensor in model.graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    del model.graph.value_info[:]


def identities(model: onnx.ModelProto, rng: Rng) -> None:
    for tensor in rng.choice(activations(model), 4, replace=False):
        insert_after(model, str(tensor), [("Identity", {})], int(rng.integers(1 << 30)))


def casts(model: onnx.ModelProto, rng: Rng) -> None:
    """To float64 and back: exact."""
    pair: list[tuple[str, dict[str, Any]]] = [
        ("Cast", {"to": TensorProto.DOUBLE}),
        ("Cast", {"to": TensorProto.FLOAT}),
    ]
    for tensor in rng.choice(activations(model), 3, replace=False):
        insert_after(model, str(tensor), pair, int(rng.integers(1 << 30)))


def transposes(model: onnx.ModelProto, rng: Rng) -> None:
    """A transpose and its inverse behind tensors of rank 3 and 4."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in inferred.value_info}
    fitting = [name for name in activations(model) if ranks.get(name) in (3, 4)]
    for tensor in rng.choice(fitting, 2, replace=False):
        order = [int(axis) for axis in rng.permutation(ranks[str(tensor)])]
        back = [order.index(axis) for axis in range(len(order))]
        insert_after(
            model,
            str(tensor),
            [("Transpose", {"perm": order}), ("Transpose", {"perm": back})],
            int(rng.integers(1 << 30)),
        )


def swap_operands(model: onnx.ModelProto, rng: Rng) -> None:
    for node in model.graph.node:
        if node.op_type in ("Add", "Mul") and rng.random() < 0.5:
            node.input[0], node.input[1] = node.input[1], node.input[0]


def reorder(model: onnx.ModelProto, rng: Rng) -> None:
    """Another topological order."""
    waiting = list(model.graph.node)
    known = {"", *(v.name for v in model.graph.input), *(t.name for t in model.graph.initializer)}
    ordered: list[onnx.NodeProto] = []
    while waiting:
        ready = [node for node in waiting if known.issuperset(node.input)]
        chosen = ready[rng.integers(len(ready))]
        waiting.remove(chosen)
        known.update(chosen.output)
        ordered.append(chosen)
    copied = onnx.GraphProto(node=ordered)
    del model.graph.node[:]
    model.graph.node.extend(copied.node)


def split_constants(model: onnx.ModelProto, rng: Rng) -> None:
    """Biases as sums of two constants, computed in the graph."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    adds = [n for n in model.graph.node if n.op_type == "Add" and any(name in stored for name in n.input)]
    for number in rng.choice(len(adds), min(2, len(adds)), replace=False):
        node = adds[int(number)]
        place = next(i for i, name in enumerate(node.input) if name in stored)
        whole = numpy_helper.to_array(stored[node.input[place]])
        mark = f"split{rng.integers(1 << 60)}"
        half = np.asarray(whole / 2, np.float32)
        model.graph.initializer.extend(numpy_helper.from_array(half, f"{mark}/{i}") for i in range(2))
        at = next(i for i, other in enumerate(model.graph.node) if other.output[0] == node.output[0])
        model.graph.node.insert(at, helper.make_node("Add", [f"{mark}/0", f"{mark}/1"], [mark], name=mark))
        model.graph.node[at + 1].input[place] = mark


def constant_nodes(model: onnx.ModelProto, rng: Rng) -> None:
    """Some stored tensors as Constant nodes."""
    chosen = [t for t in model.graph.initializer if rng.random() < 0.4]
    for tensor in chosen:
        node = helper.make_node("Constant", [], [tensor.name], name=f"const/{tensor.name}", value=tensor)
        model.graph.node.insert(0, node)
        model.graph.initializer.remove(tensor)


def share_constants(model: onnx.ModelProto, _rng: Rng) -> None:
    """Equal constants become one, read by all."""
    first: dict[tuple[Any, ...], str] = {}
    for tensor in list(model.graph.initializer):
        array = numpy_helper.to_array(tensor)
        one = first.setdefault((array.dtype.str, array.shape, array.tobytes()), tensor.name)
        if one != tensor.name:
            for node in model.graph.node:
                node.input[:] = [one if name == tensor.name else name for name in node.input]
            model.graph.initializer.remove(tensor)


def merge_constants(model: onnx.ModelProto, rng: Rng) -> None:
    """Some weights in one long tensor, from which the graph cuts them."""
    floats = [t for t in model.graph.initializer if t.data_type == TensorProto.FLOAT and t.dims]
    chosen = [floats[int(i)] for i in rng.choice(len(floats), min(4, len(floats)), replace=False)]
    arrays = [numpy_helper.to_array(tensor) for tensor in chosen]
    mark = f"merged{rng.integers(1 << 60)}"
    ends = np.cumsum([array.size for array in arrays])
    made = {mark: np.concatenate([array.ravel() for array in arrays])}
    nodes = []
    for number, (tensor, array, end) in enumerate(zip(chosen, arrays, ends, strict=True)):
        part = f"{mark}/{number}"
        made |= {f"{part}/from": np.array([end - array.size]), f"{part}/to": np.array([end])}
        made |= {f"{part}/shape": np.array(array.shape, np.int64)}
        cut = [mark, f"{part}/from", f"{part}/to"]
        nodes.append(helper.make_node("Slice", cut, [f"{part}/flat"], name=f"{part}/cut"))
        nodes.append(helper.make_node("Reshape", [f"{part}/flat", f"{part}/shape"], [tensor.name], name=part))
        model.graph.initializer.remove(tensor)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in made.items())
    for place, node in enumerate(nodes):
        model.graph.node.insert(place, node)


def unfold_transposes(model: onnx.ModelProto, rng: Rng) -> None:
    """Some weights of products are stored turned and turned back in the graph."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    products = [n for n in model.graph.node if n.op_type in ("MatMul", "Gemm") and n.input[1] in stored]
    if not products:  # other rewrites may have taken all of them
        return
    for number in rng.choice(len(products), min(4, len(products)), replace=False):
        node = products[int(number)]
        mark = f"turned{rng.integers(1 << 60)}"
        turned = np.ascontiguousarray(numpy_helper.to_array(stored[node.input[1]]).T)
        model.graph.initializer.append(numpy_helper.from_array(turned, f"{mark}/stored"))
        node.input[1] = mark
        model.graph.node.insert(0, helper.make_node("Transpose", [f"{mark}/stored"], [mark], name=mark, perm=[1, 0]))


REWRITES: dict[str, Rewrite] = {
    rewrite.__name__: rewrite
    for rewrite in (
        rename, identities, casts, transposes, unfold_transposes, swap_operands, reorder, split_constants,
        share_constants, merge_constants, constant_nodes,
    )
}  # fmt: skip


@cache
def answer(name: str) -> tuple[Array, tuple[tuple[object, ...], ...]]:
    return explained(vit(MODELS[name]), MODELS[name])


def explained(model: onnx.ModelProto, shape: Vit) -> tuple[Array, tuple[tuple[object, ...], ...]]:
    explainer = gradskip_onnx.load(model.SerializeToString())
    (result,) = explainer.explain(IMAGES[:, :, : shape.size[0], : shape.size[1]], 1)
    blocks = explainer.architecture.blocks
    return result.relevance.scores, tuple((b.grid, b.heads, b.special, b.reduction, b.stage) for b in blocks)


def check(name: str, rewrites: list[str], seed: int) -> None:
    model = vit(MODELS[name])
    rng = np.random.default_rng(seed)
    for rewrite in rewrites:
        REWRITES[rewrite](model, rng)
    onnx.checker.check_model(model)
    scores, anatomy = explained(model, MODELS[name])
    expected, same_anatomy = answer(name)

    assert anatomy == same_anatomy
    np.testing.assert_allclose(scores, expected, rtol=ROUNDING, atol=ROUNDING * float(expected.max()))


@pytest.mark.parametrize("rewrite", REWRITES)
@pytest.mark.parametrize("name", MODELS)
def test_each_rewrite_alone(name: str, rewrite: str) -> None:
    check(name, [rewrite], seed=0)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(sorted(MODELS)),
    rewrites=st.lists(st.sampled_from(sorted(REWRITES)), min_size=2, max_size=6),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_sequence_of_rewrites(name: str, rewrites: list[str], seed: int) -> None:
    check(name, rewrites, seed)
