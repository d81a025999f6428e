"""Damage to names and metadata: alike, empty, with escapes, not UTF-8, our own."""

from __future__ import annotations

import json

import numpy as np
import onnx

from .case import pick
from .model_table import damage, scrambles

Rng = np.random.Generator
ODD_NAMES = ("", " ", "\x1b[31mred", "a\nb", "\u202egnp", "x" * 4000, "target", "../up", "%s%n", "💥", "\x00")


@damage("value renamed in one place")
def half_renamed(model: onnx.ModelProto, rng: Rng) -> str:
    node = pick(rng, model.graph.node)
    node.output[0] = pick(rng, ODD_NAMES)
    return f"output of {node.name} called {node.output[0][:20]!r}"


@damage("odd node name at an odd node")
def odd_node(model: onnx.ModelProto, rng: Rng) -> str:
    node = pick(rng, model.graph.node)
    node.name, node.op_type = pick(rng, ODD_NAMES), pick(rng, ("Softmax", "Foreign\x1b[2J", "NonZero", "Celu"))
    return f"a {node.op_type!r} called {node.name[:20]!r}"


@damage("odd name of an input or output")
def odd_port(model: onnx.ModelProto, rng: Rng) -> str:
    port = pick(rng, [*model.graph.input, *model.graph.output])
    port.name = pick(rng, ODD_NAMES)
    return f"a port called {port.name[:20]!r}"


@damage("odd name of a dimension")
def odd_dimension(model: onnx.ModelProto, rng: Rng) -> str:
    dim = pick(rng, [d for port in (*model.graph.input, *model.graph.output) for d in port.type.tensor_type.shape.dim])
    dim.dim_param = pick(rng, ODD_NAMES)
    return f"a dimension called {dim.dim_param[:20]!r}"


@damage("metadata of ours")
def own_metadata(model: onnx.ModelProto, rng: Rng) -> str:
    junk: tuple[object, ...] = (
        {}, [], 1, None, {"preprocess": {"mean": [1e400, 0, 0]}}, {"preprocess": {"size": [2**40, 1]}},
        {"labels": ["\x1b[31m"] * 9}, {"labels": {"0": 5}}, {"format": 10**30}, {"preprocess": {"std": [0, 0, 0]}},
    )  # fmt: skip
    text = pick(rng, (json.dumps(pick(rng, junk)), "[" * 100_000, "{", "\x1b]0;title\x07", "9" * 5000))
    del model.metadata_props[:]
    model.metadata_props.add(key="gradskip_onnx", value=text)
    return f"metadata {text[:60]!r}"


@scrambles("names that are not UTF-8")
def not_utf8(data: bytes, rng: Rng) -> tuple[bytes, str]:
    model = onnx.ModelProto.FromString(data)
    found = [node.name for node in model.graph.node if node.name] + [t.name for t in model.graph.initializer]
    name = pick(rng, [*found, model.graph.input[0].name, model.graph.output[0].name]).encode()
    return data.replace(name, b"\xff" * len(name)), f"{name!r} as bytes 0xff"


@scrambles("attribute names that are not UTF-8")
def attribute_not_utf8(data: bytes, rng: Rng) -> tuple[bytes, str]:
    name = pick(rng, (b"perm", b"axis", b"kernel_shape", b"Softmax", b"MatMul", b"batch", b"strides"))
    return data.replace(name, b"\xc3" * len(name)), f"{name!r} as bytes 0xc3"
