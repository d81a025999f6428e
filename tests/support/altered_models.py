"""Tiny transformers with something put into them: nodes between their blocks, functions; what comes of it."""

from __future__ import annotations

import contextlib
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import gradskip_onnx
from tests.support.models import vit

IMAGE = np.random.default_rng(1).standard_normal((1, 3, 32, 32)).astype(np.float32)
METHODS = ("gradskip", "gradskip+", "attnlrp", "legrad")


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


def accepted(model: onnx.ModelProto) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with contextlib.suppress(Exception):
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return True
    return False
