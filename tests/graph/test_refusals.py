"""What cannot be explained is refused: exit code 3, a reason code, the node and what to do, by both commands alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import Result
from onnx import numpy_helper
from PIL import Image

from tests.support.command_line import run
from tests.support.models import FLOAT, Vit, Writer, _embed, cnn, finish, text_model, vit

SHAPE = Vit(special=0)
COUNT, WIDTH, GRID = 16, SHAPE.width, 4
POINTS = 3  # that each query of the deformable attention looks at

Mix = Callable[[Writer, str], str]


def mixer(mix: Mix) -> onnx.ModelProto:
    """Tokens, one residual block in which `mix` stands in for attention, mean, scores."""
    w = Writer(np.random.default_rng(0))
    tokens, _ = _embed(w, SHAPE)
    tokens = w.op("Add", tokens, mix(w, w.norm(tokens, WIDTH, decomposed=False)))
    w.op("Gemm", w.op("ReduceMean", tokens, axes=[1], keepdims=0), w.weight(WIDTH, 5))
    w.nodes[-1].output[0] = "logits"
    return finish(w, {"image": (FLOAT, ["batch", 3, *SHAPE.size])}, {"logits": (FLOAT, ["batch", 5])}, 17)


def kernel_attention(w: Writer, tokens: str) -> str:
    """φ(Q)(φ(K)ᵀV) with φ = relu: no matrix of tokens by tokens is ever there."""
    q, k = (w.op("Relu", w.linear(tokens, WIDTH, WIDTH)) for _ in range(2))
    return w.op("MatMul", q, w.op("MatMul", w.op("Transpose", k, perm=[0, 2, 1]), w.linear(tokens, WIDTH, WIDTH)))


def efficient_attention(w: Writer, tokens: str) -> str:
    """softmax(Q) (softmax(K)ᵀV), one softmax over channels, the other over tokens: both stand before all products."""
    q = w.op("Softmax", w.linear(tokens, WIDTH, WIDTH), axis=-1)
    k = w.op("Softmax", w.linear(tokens, WIDTH, WIDTH), axis=1)
    return w.op("MatMul", q, w.op("MatMul", w.op("Transpose", k, perm=[0, 2, 1]), w.linear(tokens, WIDTH, WIDTH)))


def deformable_attention(w: Writer, tokens: str) -> str:
    """Each query samples the values at a few places of its own choice and weighs them."""
    values = w.op("Transpose", w.linear(tokens, WIDTH, WIDTH), perm=[0, 2, 1])
    places = w.op("Tanh", w.linear(tokens, WIDTH, 2 * POINTS))
    sampled = w.op(
        "GridSample",
        w.op("Reshape", values, w.ints(0, WIDTH, GRID, GRID)),
        w.op("Reshape", places, w.ints(0, COUNT, POINTS, 2)),
        mode="bilinear",
    )  # (B, width, tokens, points)
    weights = w.op("Softmax", w.linear(tokens, WIDTH, POINTS), axis=-1)
    weighed = w.op("Mul", sampled, w.op("Unsqueeze", weights, w.ints(1)))
    return w.op("Transpose", w.op("ReduceSum", weighed, w.ints(3), keepdims=0), perm=[0, 2, 1])


def blocked() -> onnx.ModelProto:
    """A vision transformer as ONNX Runtime writes it for this machine alone: the patch convolution in NCHWc."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    with TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "blocked.onnx")
        whole = vit(Vit(width=32)).SerializeToString()
        onnxruntime.InferenceSession(whole, options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


def narrow(ports: bool) -> onnx.ModelProto:
    """A transformer that computes in bfloat16, from its pixels on or behind a cast."""
    kind, model = onnx.TensorProto.BFLOAT16, vit(Vit(decomposed_norm=True, opset=13))
    for tensor in model.graph.initializer:
        if tensor.data_type == FLOAT:
            array = numpy_helper.to_array(tensor).astype(onnx.helper.tensor_dtype_to_np_dtype(kind))
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    if ports:
        for port in (*model.graph.input, *model.graph.output):
            port.type.tensor_type.elem_type = kind
        return model
    first, last = model.graph.node[0], model.graph.node[-1]
    first.input[0], last.output[0] = "narrow", "wide"
    model.graph.node.insert(0, onnx.helper.make_node("Cast", ["image"], ["narrow"], name="in", to=kind))
    model.graph.node.append(onnx.helper.make_node("Cast", ["wide"], ["logits"], name="out", to=FLOAT))
    return model


# Model, reason code, and what the line must hold: where, and what to do.
REFUSALS: dict[str, tuple[Callable[[], onnx.ModelProto], str, tuple[str, ...]]] = {
    "cnn": (cnn, "no-attention", ("vision transformer",)),
    "text": (text_model, "no-image-input", ("input_ids", "vision model")),
    "linear attention": (lambda: mixer(kernel_attention), "no-attention", ("vision transformer",)),
    "efficient attention": (lambda: mixer(efficient_attention), "no-attention", ("vision transformer",)),
    "deformable attention": (lambda: mixer(deformable_attention), "no-attention", ("vision transformer",)),
    "bfloat16": (lambda: narrow(ports=True), "no-kernel", ("(Conv)", "float32")),
    "bfloat16 inside": (lambda: narrow(ports=False), "no-kernel", ("(Conv)", "float32")),
    "nchwc": (blocked, "hardware-specific", ("com.microsoft.nchwc", "level extended")),
}


@pytest.fixture(params=REFUSALS)
def refused(request, tmp_path):
    build, code, texts = REFUSALS[request.param]
    path = tmp_path / "model.onnx"
    model = build()
    onnx.save(model, path)
    return path, model, code, texts


def error_of(result: Result) -> str:
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    return line


def test_refused_with_code_node_and_advice_by_both_commands(refused, tmp_path):
    path, model, code, texts = refused
    Image.new("RGB", (32, 32), "red").save(tmp_path / "picture.png")
    explained = run("explain", path, tmp_path / "picture.png", "-o", tmp_path / "out")
    inspected = run("inspect", path)
    line = error_of(explained)

    assert explained.exit_code == inspected.exit_code == 3
    assert error_of(inspected) == line
    assert line.endswith(f"[{code}]")
    assert all(text in line for text in texts), line
    if code != "no-image-input":  # there the input is named
        assert any(f"node {node.name!r}" in line for node in model.graph.node), line


def test_refused_as_a_document_for_programs(refused):
    path, _, code, texts = refused
    document = json.loads(run("inspect", path, "--json").stdout)

    assert (document["supported"], document["code"]) == (False, code)
    assert all(text in document["reason"] for text in texts)
