"""Tiny vision models written node by node, with the variations real files show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


@dataclass
class Writer:
    """Appends nodes; every helper returns the name of its output."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    tensors: list[onnx.TensorProto] = field(default_factory=list)

    def op(self, kind: str, *inputs: str, **attrs: Any) -> str:
        return self.ops(kind, 1, *inputs, **attrs)[0]

    def ops(self, kind: str, count: int, *inputs: str, **attrs: Any) -> list[str]:
        outputs = [f"t{len(self.nodes)}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, name=f"n{len(self.nodes)}", **attrs))
        return outputs

    def const(self, value: Any, dtype: Any = None) -> str:
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def ints(self, *values: int) -> str:
        return self.const(np.array(values, np.int64))

    def weight(self, *shape: int, scale: float = 0.4) -> str:
        return self.const(scale * self.rng.standard_normal(shape), np.float32)

    def linear(self, x: str, inward: int, outward: int) -> str:
        return self.op("Add", self.op("MatMul", x, self.weight(inward, outward)), self.weight(outward))

    def norm(self, x: str, width: int, decomposed: bool) -> str:
        gain, bias = self.const(1 + 0.1 * self.rng.standard_normal(width), np.float32), self.weight(width)
        if not decomposed:
            return self.op("LayerNormalization", x, gain, bias, axis=-1, epsilon=1e-6)
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        variance = self.op("ReduceMean", self.op("Pow", centred, self.const(2.0, np.float32)), axes=[-1])
        spread = self.op("Sqrt", self.op("Add", variance, self.const(1e-6, np.float32)))
        return self.op("Add", self.op("Mul", self.op("Div", centred, spread), gain), bias)

    def gelu(self, x: str, tanh: bool) -> str:
        half, one = self.const(0.5, np.float32), self.const(1.0, np.float32)
        if tanh:  # 0.5 x (1 + tanh(0.79788 (x + 0.044715 x^3))): its inner sum looks like a residual add
            cube = self.op("Mul", self.op("Pow", x, self.const(3.0, np.float32)), self.const(0.044715, np.float32))
            inner = self.op("Mul", self.op("Add", x, cube), self.const(0.7978845608, np.float32))
            gate = self.op("Tanh", inner)
        else:
            gate = self.op("Erf", self.op("Mul", x, self.const(0.7071067811865476, np.float32)))
        return self.op("Mul", self.op("Mul", x, self.op("Add", gate, one)), half)


@dataclass(frozen=True)
class Vit:
    """What a tiny vision transformer looks like; each field is one variation met in real files."""

    size: tuple[int, int] = (32, 32)
    patch: int = 8
    depth: int = 2
    heads: int = 2
    width: int = 12
    classes: int = 5
    special: int = 1
    special_last: bool = False
    channels: int = 3
    batch: int | str = "batch"
    opset: int = 17
    decomposed_norm: bool = False
    tanh_gelu: bool = False
    folded_heads: bool = False  # attention as (B * heads, N, N)
    swapped_product: bool = False  # context as Vᵀ Aᵀ
    channels_last: bool = False
    scaled_branch: bool = False  # LayerScale
    masked: bool = False  # a constant added to the scores, a NaN guard after the softmax
    probabilities: bool = False  # the file ends in a softmax
    pooled: bool = False  # mean over tokens in place of the class token
    post_norm: bool = False
    seed: int = 0


def vit(shape: Vit = Vit()) -> onnx.ModelProto:
    """A vision transformer as plain ONNX."""
    w = Writer(np.random.default_rng(shape.seed))
    tokens, count = _embed(w, shape)
    for _ in range(shape.depth):
        tokens = _block(w, shape, tokens, count)
    tokens = w.norm(tokens, shape.width, shape.decomposed_norm)
    if shape.pooled or not shape.special:
        head = w.op("ReduceMean", tokens, axes=[1], keepdims=0)
    else:
        place = count - shape.special if shape.special_last else 0
        head = w.op("Gather", tokens, w.const(place, np.int64), axis=1)
    scores = w.op("Gemm", head, w.weight(shape.classes, shape.width), w.weight(shape.classes), transB=1)
    w.op("Softmax" if shape.probabilities else "Identity", scores)
    w.nodes[-1].output[0] = "logits"
    height, width = shape.size
    dims = [height, width, shape.channels] if shape.channels_last else [shape.channels, height, width]
    return finish(
        w, {"image": (FLOAT, [shape.batch, *dims])}, {"logits": (FLOAT, [shape.batch, shape.classes])}, shape.opset
    )


def _embed(w: Writer, shape: Vit) -> tuple[str, int]:
    image = w.op("Transpose", "image", perm=[0, 3, 1, 2]) if shape.channels_last else "image"
    p, d = shape.patch, shape.width
    cells = w.op(
        "Conv", image, w.weight(d, shape.channels, p, p, scale=0.1), w.weight(d), kernel_shape=[p, p], strides=[p, p]
    )
    count = (shape.size[0] // p) * (shape.size[1] // p)
    tokens = w.op("Transpose", w.op("Reshape", cells, w.ints(0, d, count)), perm=[0, 2, 1])
    if shape.special:
        batch = w.op("Gather", w.op("Shape", tokens), w.ints(0))
        extra = w.op("Expand", w.weight(1, shape.special, d), w.op("Concat", batch, w.ints(shape.special, d), axis=0))
        tokens = w.op("Concat", *([tokens, extra] if shape.special_last else [extra, tokens]), axis=1)
    count += shape.special
    return w.op("Add", tokens, w.weight(1, count, d)), count


def _block(w: Writer, shape: Vit, tokens: str, count: int) -> str:
    if shape.post_norm:
        tokens = w.norm(w.op("Add", _attention(w, shape, tokens, count), tokens), shape.width, shape.decomposed_norm)
        return w.norm(w.op("Add", _mlp(w, shape, tokens), tokens), shape.width, shape.decomposed_norm)
    normed = w.norm(tokens, shape.width, shape.decomposed_norm)
    tokens = w.op("Add", tokens, _scaled(w, shape, _attention(w, shape, normed, count)))
    normed = w.norm(tokens, shape.width, shape.decomposed_norm)
    return w.op("Add", _scaled(w, shape, _mlp(w, shape, normed)), tokens)


def _scaled(w: Writer, shape: Vit, branch: str) -> str:
    return w.op("Mul", branch, w.weight(shape.width)) if shape.scaled_branch else branch


def _mlp(w: Writer, shape: Vit, tokens: str) -> str:
    return w.linear(
        w.gelu(w.linear(tokens, shape.width, 2 * shape.width), shape.tanh_gelu), 2 * shape.width, shape.width
    )


def _attention(w: Writer, shape: Vit, tokens: str, count: int) -> str:
    d, h = shape.width, shape.heads
    split = w.ints(-1, count, h, d // h)
    q, k, v = (w.op("Transpose", w.op("Reshape", w.linear(tokens, d, d), split), perm=[0, 2, 1, 3]) for _ in range(3))
    if shape.folded_heads:
        q, k, v = (w.op("Reshape", x, w.ints(-1, count, d // h)) for x in (q, k, v))
    last = [0, 2, 1] if shape.folded_heads else [0, 1, 3, 2]
    scores = w.op("Mul", w.op("MatMul", q, w.op("Transpose", k, perm=last)), w.const((d // h) ** -0.5, np.float32))
    if shape.masked:
        scores = w.op("Add", scores, w.weight(count, count))
    attention = w.op("Softmax", scores, axis=-1)
    if shape.masked:
        attention = w.op("Where", w.op("IsNaN", attention), w.const(0.0, np.float32), attention)
    if shape.swapped_product:
        turned = w.op("MatMul", w.op("Transpose", v, perm=last), w.op("Transpose", attention, perm=last))
        context = w.op("Transpose", turned, perm=last)
    else:
        context = w.op("MatMul", attention, v)
    if shape.folded_heads:
        context = w.op("Reshape", context, w.ints(-1, h, count, d // h))
    merged = w.op("Reshape", w.op("Transpose", context, perm=[0, 2, 1, 3]), w.ints(-1, count, d))
    return w.linear(merged, d, d)


def segmenter() -> onnx.ModelProto:
    """A transformer that scores three classes at each of its 4x4 tokens."""
    shape = Vit(special=0)
    w = Writer(np.random.default_rng(3))
    tokens, count = _embed(w, shape)
    for _ in range(shape.depth):
        tokens = _block(w, shape, tokens, count)
    turned = w.op("Transpose", w.linear(tokens, shape.width, 3), perm=[0, 2, 1])
    w.op("Reshape", turned, w.ints(0, 3, 4, 4))
    w.nodes[-1].output[0] = "logits"
    batch = ["batch", 3]
    return finish(w, {"image": (FLOAT, [*batch, 32, 32])}, {"logits": (FLOAT, [*batch, 4, 4])}, shape.opset)


def encoder(channels: int = 256) -> onnx.ModelProto:
    """Features for each cell of a grid, by convolutions, attention and convolutions again, as MobileSAM's encoder."""
    shape = Vit(special=0)
    w = Writer(np.random.default_rng(3))
    half = w.op("Conv", "image", w.weight(6, 3, 3, 3), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    cells = w.op("Conv", w.op("Relu", half), w.weight(12, 6, 4, 4), kernel_shape=[4, 4], strides=[4, 4])
    tokens = w.op("Transpose", w.op("Reshape", cells, w.ints(0, shape.width, 16)), perm=[0, 2, 1])
    for _ in range(shape.depth):
        tokens = _block(w, shape, tokens, 16)
    grid = w.op("Reshape", w.op("Transpose", tokens, perm=[0, 2, 1]), w.ints(0, shape.width, 4, 4))
    neck = w.op("Conv", grid, w.weight(channels, shape.width, 1, 1), kernel_shape=[1, 1])
    w.op("Conv", neck, w.weight(channels, channels, 3, 3, scale=0.05), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    w.nodes[-1].output[0] = "image_embeddings"
    return finish(
        w,
        {"image": (FLOAT, ["batch", 3, 32, 32])},
        {"image_embeddings": (FLOAT, ["batch", channels, 4, 4])},
        shape.opset,
    )


def cnn() -> onnx.ModelProto:
    """A picture goes in, class scores come out, and there is no attention on the way."""
    w = Writer(np.random.default_rng(0))
    x = w.op("Relu", w.op("Conv", "image", w.weight(8, 3, 3, 3), kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
    pooled = w.op("Flatten", w.op("GlobalAveragePool", x))
    w.op("Softmax", w.op("Gemm", pooled, w.weight(4, 8), transB=1))
    w.nodes[-1].output[0] = "logits"
    return finish(w, {"image": (FLOAT, ["batch", 3, 32, 32])}, {"logits": (FLOAT, ["batch", 4])}, 17)


def text_model() -> onnx.ModelProto:
    """Token numbers in, scores out."""
    w = Writer(np.random.default_rng(0))
    w.op("ReduceMean", w.op("Gather", w.weight(100, 8), "input_ids"), axes=[1], keepdims=0)
    w.nodes[-1].output[0] = "logits"
    return finish(w, {"input_ids": (INT64, ["batch", "length"])}, {"logits": (FLOAT, ["batch", 8])}, 17)


Ports = dict[str, tuple[int, list[Any]]]


def finish(w: Writer, inputs: Ports, outputs: Ports, opset: int) -> onnx.ModelProto:
    ports = [[helper.make_tensor_value_info(n, *kind) for n, kind in group.items()] for group in (inputs, outputs)]
    graph = helper.make_graph(w.nodes, "tiny", ports[0], ports[1], w.tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model
