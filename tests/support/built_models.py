"""A small file that explains itself, written node by node: a stand-in for what `gradskip-onnx build` writes.

The class score is the mean over patches of what each patch gives to it, which is also the relevance of the patch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.model_file.metadata import FORMAT, KEY

SIDE, PATCH, WIDTH = 32, 8, 6
LABELS = ("cat", "dog", "fish", "house", "star", "moon", "tree")
PREPROCESS = Preprocess(size=(SIDE, SIDE), crop=0.875, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4), source="test")


def built_model(labels: Sequence[str] = LABELS, **description: Any) -> onnx.ModelProto:
    """The model; `description` replaces entries of what the metadata say was built."""
    rng, classes = np.random.default_rng(7), len(labels)
    tensors: dict[str, np.ndarray] = {
        "filters": rng.standard_normal((WIDTH, 3, PATCH, PATCH)).astype(np.float32),
        "weights": rng.standard_normal((classes, WIDTH)).astype(np.float32),
        "target": np.array([-1], np.int64),
        "zero": np.array(0, np.int64),
        "one": np.array(1, np.int64),
        "all": np.array([classes], np.int64),
        "axis": np.array([1], np.int64),
        "sizes": np.array([1, 1, SIDE, SIDE], np.int64),
    }
    nodes = [
        helper.make_node("Conv", ["image", "filters"], ["patches"], strides=[PATCH, PATCH]),
        helper.make_node("Relu", ["patches"], ["tokens"]),
        helper.make_node("ReduceMean", ["tokens"], ["mean"], axes=[2, 3], keepdims=0),
        helper.make_node("Gemm", ["mean", "weights"], ["logits"], transB=1),
        helper.make_node("TopK", ["logits", "all"], ["_sorted", "ranking"]),  # the class of each rank
        helper.make_node("Less", ["target", "zero"], ["by_rank"]),
        helper.make_node("Neg", ["target"], ["opposite"]),
        helper.make_node("Sub", ["opposite", "one"], ["rank"]),
        helper.make_node("Max", ["rank", "zero"], ["place"]),
        helper.make_node("Unsqueeze", ["place", "axis"], ["places"]),
        helper.make_node("GatherElements", ["ranking", "places"], ["ranked"], axis=1),
        helper.make_node("Squeeze", ["ranked", "axis"], ["likely"]),
        helper.make_node("Where", ["by_rank", "likely", "target"], ["explained"]),
        helper.make_node("Gather", ["weights", "explained"], ["row"]),
        helper.make_node("Unsqueeze", ["row", "spread_axes"], ["spread"]),
        helper.make_node("Mul", ["tokens", "spread"], ["shares"]),
        helper.make_node("ReduceSum", ["shares", "axis"], ["grid"], keepdims=1),
        helper.make_node("Resize", ["grid", "", "", "sizes"], ["large"], mode="linear"),
        helper.make_node("Squeeze", ["large", "axis"], ["relevance"]),
    ]
    tensors["spread_axes"] = np.array([2, 3], np.int64)
    inputs = [
        helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIDE, SIDE]),
        helper.make_tensor_value_info("target", TensorProto.INT64, [1]),
    ]
    outputs = [
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, classes]),
        helper.make_tensor_value_info("relevance", TensorProto.FLOAT, [1, SIDE, SIDE]),
        helper.make_tensor_value_info("explained", TensorProto.INT64, [1]),
    ]
    initializers = [numpy_helper.from_array(value, name) for name, value in tensors.items()]
    graph = helper.make_graph(nodes, "stand-in", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    built = {
        "method": "cam",
        "options": {},
        "source_sha256": "0" * 64,
        "top": 0,
        "map": "image",
        "smoothed": False,
        "normalised": False,
        "score": "logit",
        "precision": "float32",
        "preprocessing": "outside",
        "inputs": {"image": "image", "target": "target", "region": None},
        "outputs": {"logits": "logits", "relevance": "relevance", "explained": "explained"},
        "task": "classification",
        "classes": classes,
        "image_size": [SIDE, SIDE],
    }
    document = {
        "format": FORMAT,
        "preprocess": PREPROCESS.as_dict(),
        "labels": list(labels),
        "anatomy": {"input_layout": "bchw", "blocks": [{"grid": [SIDE // PATCH, SIDE // PATCH]}]},
        "built": built | description,
    }
    helper.set_model_props(model, {KEY: json.dumps(document)})
    onnx.checker.check_model(model, full_check=True)
    return model
