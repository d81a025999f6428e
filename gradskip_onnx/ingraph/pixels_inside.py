"""Preprocessing as operators: the bytes of an image of any size in, the model's input out, as `images.preprocess` does.

Pillow resamples along one axis, rounds to bytes, and then along the other. A sample is a weighted sum of old ones, so
each step is a product with a matrix of weights. Here the matrix is made at run time of the size of the image, for
the rows and columns that the centre crop keeps alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from gradskip_onnx.autodiff.emit import Emit
from gradskip_onnx.autodiff.sym import Sym
from gradskip_onnx.errors import InputError
from gradskip_onnx.graph.read.assemble import assemble
from gradskip_onnx.images.preprocess import Preprocess
from gradskip_onnx.surgeon.node_writer import PREFIX
from gradskip_onnx.surgeon.sorting import sort_nodes
from gradskip_onnx.types import Architecture, TensorFact


def _triangle(x: Sym) -> Sym:
    return (1 - x).apply("Max", 0)


def _cubic(x: Sym) -> Sym:
    """Keys' cubic with a = -1/2."""
    a = -0.5
    near = ((x * (a + 2) - (a + 3)) * x * x) + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return (x < 1).where(near, (x < 2).where(far, 0))


def _sinc(x: Sym) -> Sym:
    """sin(pi x) / (pi x), 1 at 0."""
    scaled = x * math.pi
    zero = x.equals(0)
    one = x.emit.const(1, x.dtype)
    # the kernels of Sin are for float32 alone
    sine = scaled.cast(np.float32).apply("Sin").cast(x.dtype)
    return zero.where(one, sine / zero.where(one, scaled))


def _box(x: Sym) -> Sym:
    """1 from -1/2, which does not count, to 1/2, which does."""
    return (x > -0.5).where((x > 0.5).where(x.emit.const(0, x.dtype), 1), 0)


# Filters of Pillow: the weight at a distance, in samples of the coarser side.
FILTERS: Mapping[str, Callable[[Sym], Sym]] = {
    "bilinear": lambda x: _triangle(x.apply("Abs")),
    "bicubic": lambda x: _cubic(x.apply("Abs")),
    "box": _box,
    "lanczos": lambda x: (x.apply("Abs") < 3).where(_sinc(x) * _sinc(x / 3), 0),
}


@dataclass(frozen=True, slots=True, eq=False)
class PixelGraph:
    """The nodes in front of a model; they write a tensor of the name of its input."""

    nodes: tuple[onnx.NodeProto, ...]
    constants: tuple[onnx.TensorProto, ...]
    image: onnx.ValueInfoProto  # the new input, uint8 (H, W, 3)


def write_pixels(
    architecture: Architecture, fact: TensorFact, opset: int, ir: int, preprocess: Preprocess, name: str
) -> PixelGraph:
    """The operators that make the model's input of an image called `name`."""
    if preprocess.interpolation not in FILTERS:
        known = ", ".join(FILTERS)
        raise InputError(
            f"preprocessing inside: interpolation {preprocess.interpolation} has no operators; use {known}"
        )
    if preprocess.resize == "pad" or architecture.input_dims.channels != 3:
        raise InputError("preprocessing inside: for images of 3 channels that are cropped or stretched, not padded")
    facts = {name: TensorFact((None, None, 3), np.dtype(np.uint8))}
    image = gs.Variable(name, np.uint8, ["height", "width", 3])
    graph = gs.Graph(inputs=[image], opset=opset, ir_version=ir)
    emit = Emit(graph, facts, opset, f"{PREFIX}pixels/")
    found = _model_input(emit.sym(name), architecture, fact, preprocess)
    found.tensor.name = architecture.input
    graph.outputs = [found.tensor]
    written = assemble(sort_nodes(graph.cleanup())).graph
    return PixelGraph(tuple(written.node), tuple(written.initializer), written.input[0])


def _model_input(image: Sym, architecture: Architecture, fact: TensorFact, preprocess: Preprocess) -> Sym:
    emit, (height, width) = image.emit, preprocess.size
    old = emit.shape(image).cast(np.float64)
    sizes = [emit.op("Slice", old, emit.ints([at]), emit.ints([at + 1]), dims=(1,)) for at in (0, 1)]
    rows, columns = _resized(sizes[0], sizes[1], preprocess)
    chw = image.cast(np.float32).transpose([2, 0, 1])
    across = _weights(sizes[1], columns, width, FILTERS[preprocess.interpolation])
    down = _weights(sizes[0], rows, height, FILTERS[preprocess.interpolation])
    values = _bytes(down @ _bytes(chw @ across.mT))
    mean, std = (emit.const(np.reshape(part, (3, 1, 1)), np.float32) for part in (preprocess.mean, preprocess.std))
    if preprocess.channels == "bgr":
        values = emit.op("Gather", values, emit.ints([2, 1, 0]), dims=values.dims, axis=0)
    normal = ((values / 255 - mean) / std).unsqueeze(0)
    letters = ["bchw".index(letter) for letter in architecture.input_layout]
    return normal.transpose(letters).cast(fact.dtype)


def _resized(height: Sym, width: Sym, preprocess: Preprocess) -> tuple[Sym, Sym]:
    """`images.preprocess.resized`, (1,) float64 each."""
    rows, columns = (int(side / preprocess.crop + 1e-6) for side in preprocess.size)
    if preprocess.resize == "stretch":
        return height.emit.const([rows], np.float64), height.emit.const([columns], np.float64)
    # the side that is not the limiting one is rounded down, and is never shorter than asked for
    return (
        (height * columns / width).apply("Floor").apply("Max", rows),
        (width * rows / height).apply("Floor").apply("Max", columns),
    )


def _weights(old: Sym, resized: Sym, kept: int, weigh: Callable[[Sym], Sym]) -> Sym:
    """(kept, old): the weights of the old samples in those that the centre crop keeps of `resized` ones."""
    emit = old.emit
    first = ((resized - kept) / 2).apply("Round")  # to even, as Python rounds
    scale = old / resized
    wide = scale.apply("Max", 1)
    centres = (emit.const(np.arange(kept)[:, None] + 0.5, np.float64) + first) * scale  # (kept, 1)
    zero, one = (emit.const(number, np.int64) for number in (0, 1))
    last = old.cast(np.int64).squeeze(0)
    places = emit.op("Range", zero, last, one, dims=(None,), dtype=np.int64).cast(np.float64).unsqueeze(0)
    weights = weigh((places + 0.5 - centres) / wide)
    return (weights / weights.sum([1])).cast(np.float32)


def _bytes(values: Sym) -> Sym:
    """Rounded to whole numbers from 0 to 255, halves up."""
    return (values + 0.5).apply("Floor").apply("Max", 0).apply("Min", 255)
