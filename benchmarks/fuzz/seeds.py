"""Unharmed files that mutations start from: small vision transformers written node by node, and a picture."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from PIL import Image

from gradskip_onnx.demo import demo_model

FLOAT = onnx.TensorProto.FLOAT
SIDE, PATCH, WIDTH, HEADS, CLASSES = 32, 8, 12, 2, 5
PATCHES = (SIDE // PATCH) ** 2


@dataclass(slots=True)
class Writer:
    """Appends nodes and weights; every method returns the name of its result."""

    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], f"/{kind}_{len(self.nodes)}", **attributes))
        return name

    def const(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def ints(self, *values: int) -> str:
        return self.const(values, np.int64)

    def weight(self, *shape: int, scale: float = 0.4) -> str:
        return self.const(scale * self.rng.standard_normal(shape))

    def linear(self, x: str, inward: int, outward: int) -> str:
        return self.op("Add", self.op("MatMul", x, self.weight(inward, outward)), self.weight(outward))

    def norm(self, x: str, plain: bool) -> str:
        gain, bias = self.const(1 + 0.1 * self.rng.standard_normal(WIDTH)), self.weight(WIDTH)
        if not plain:
            return self.op("LayerNormalization", x, gain, bias, axis=-1, epsilon=1e-6)
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        variance = self.op("ReduceMean", self.op("Mul", centred, centred), axes=[-1])
        spread = self.op("Sqrt", self.op("Add", variance, self.const(1e-6)))
        return self.op("Add", self.op("Mul", self.op("Div", centred, spread), gain), bias)

    def gelu(self, x: str) -> str:
        gate = self.op("Erf", self.op("Mul", x, self.const(0.5**0.5)))
        return self.op("Mul", self.op("Mul", x, self.op("Add", gate, self.const(1.0))), self.const(0.5))

    def attention(self, x: str, count: int) -> str:
        inner = WIDTH // HEADS
        split = self.ints(0, count, HEADS, inner)
        q, k, v = (self.op("Reshape", self.linear(x, WIDTH, WIDTH), split) for _ in range(3))
        q, v = (self.op("Transpose", part, perm=[0, 2, 1, 3]) for part in (q, v))
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 2, 3, 1]))
        shares = self.op("Softmax", self.op("Mul", scores, self.const(inner**-0.5)), axis=-1)
        merged = self.op("Transpose", self.op("MatMul", shares, v), perm=[0, 2, 1, 3])
        return self.linear(self.op("Reshape", merged, self.ints(0, count, WIDTH)), WIDTH, WIDTH)


def vit(*, batch: int | str = "batch", plain_norm: bool = False, pooled: bool = False) -> onnx.ModelProto:
    """Two blocks over 4x4 patches of 32x32 pixels, five classes; a class token unless `pooled`."""
    w = Writer()
    tokens, count = _tokens(w, with_class=not pooled)
    return _finish(w, batch, _classes(w, tokens, count, plain_norm, pooled))


def any_size() -> onnx.ModelProto:
    """The pooled one without positions, for images of any size."""
    w = Writer()
    tokens = w.op("Transpose", w.op("Reshape", _cells(w), w.ints(0, WIDTH, -1)), perm=[0, 2, 1])
    return _finish(w, "batch", _classes(w, tokens, -1, plain_norm=False, pooled=True), ("height", "width"))


def _classes(w: Writer, tokens: str, count: int, plain_norm: bool, pooled: bool) -> list[int]:
    """Two blocks and the head; returns the shape of its scores."""
    for _ in range(2):
        tokens = _block(w, tokens, count, plain_norm)
    tokens = w.norm(tokens, plain_norm)
    if pooled:
        head = w.op("ReduceMean", tokens, axes=[1], keepdims=0)
    else:
        head = w.op("Gather", tokens, w.const(0, np.int64), axis=1)
    w.op("Gemm", head, w.weight(CLASSES, WIDTH), w.weight(CLASSES), transB=1)
    return [CLASSES]


def segmenter() -> onnx.ModelProto:
    """The same blocks with three scores at each of the 4x4 patches."""
    w = Writer()
    tokens, count = _tokens(w, with_class=False)
    for _ in range(2):
        tokens = _block(w, tokens, count, False)
    side = SIDE // PATCH
    w.op("Reshape", w.op("Transpose", w.linear(tokens, WIDTH, 3), perm=[0, 2, 1]), w.ints(0, 3, side, side))
    return _finish(w, "batch", [3, side, side])


def _cells(w: Writer) -> str:
    kernel = w.weight(WIDTH, 3, PATCH, PATCH, scale=0.1)
    return w.op("Conv", "image", kernel, w.weight(WIDTH), kernel_shape=[PATCH] * 2, strides=[PATCH] * 2)


def _tokens(w: Writer, *, with_class: bool) -> tuple[str, int]:
    tokens = w.op("Transpose", w.op("Reshape", _cells(w), w.ints(0, WIDTH, PATCHES)), perm=[0, 2, 1])
    count = PATCHES + with_class
    if with_class:
        batch = w.op("Gather", w.op("Shape", tokens), w.ints(0))
        first = w.op("Expand", w.weight(1, 1, WIDTH), w.op("Concat", batch, w.ints(1, WIDTH), axis=0))
        tokens = w.op("Concat", first, tokens, axis=1)
    return w.op("Add", tokens, w.weight(1, count, WIDTH)), count


def _block(w: Writer, tokens: str, count: int, plain_norm: bool) -> str:
    tokens = w.op("Add", tokens, w.attention(w.norm(tokens, plain_norm), count))
    hidden = w.gelu(w.linear(w.norm(tokens, plain_norm), WIDTH, 2 * WIDTH))
    return w.op("Add", tokens, w.linear(hidden, 2 * WIDTH, WIDTH))


def _finish(
    w: Writer, batch: int | str, scores: list[int], sides: tuple[int | str, int | str] = (SIDE, SIDE)
) -> onnx.ModelProto:
    w.nodes[-1].output[0] = "logits"
    image = helper.make_tensor_value_info("image", FLOAT, [batch, 3, *sides])
    logits = helper.make_tensor_value_info("logits", FLOAT, [batch, *scores])
    graph = helper.make_graph(w.nodes, "seed", [image], [logits], w.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "vit": vit,
    "vit-fixed-batch": lambda: vit(batch=1),
    "vit-plain-norm": lambda: vit(plain_norm=True),
    "vit-pooled": lambda: vit(pooled=True),
    "vit-any-size": any_size,
    "segmenter": segmenter,
    "demo": lambda: onnx.load(str(demo_model())),
}


@cache
def model_bytes(name: str) -> bytes:
    return bytes(MODELS[name]().SerializeToString())


def picture(size: tuple[int, int] = (50, 40), mode: str = "RGB") -> Image.Image:
    """Noise over a ramp: compresses badly enough that flipped bytes matter."""
    width, height = size
    ramp = np.linspace(0, 160, height * width * 3).reshape(height, width, 3)
    pixels = ramp + np.random.default_rng(0).integers(0, 90, (height, width, 3))
    return Image.fromarray(pixels.astype(np.uint8)).convert(mode)


def encoded(image: Image.Image, form: str = "PNG", **settings: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **settings)
    return stream.getvalue()
