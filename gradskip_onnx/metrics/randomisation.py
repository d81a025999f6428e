"""Parameter randomisation (Adebayo et al., NeurIPS 2018): a map that survives random weights does not explain them.

The weights of products (matrices and filters) are redrawn from the head to the embedding. Each keeps its mean and
standard deviation, so that activations keep their size; other constants, biases, norms and embeddings are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
from onnx import numpy_helper

from gradskip_onnx.errors import InputError
from gradskip_onnx.types import Architecture, Array

from .flop_rules import PRODUCTS
from .similarity import SIMILARITIES

Explain = Callable[[onnx.ModelProto], Sequence[Array]]  # model -> maps of the same images
Mode = Literal["cascading", "independent"]
FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the model and the names of its weights."""

    name: str
    weights: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """Similarity of the maps to the original ones after a stage is randomised: one number per measure and image."""

    stage: str
    similarity: Mapping[str, tuple[float, ...]]


def stages(model: onnx.ModelProto, architecture: Architecture) -> tuple[Stage, ...]:
    """Head, blocks from the last to the first, embedding; a weight belongs to the first block that depends on it."""
    marks = [architecture.blocks[0].tokens_in, *(block.tokens_out for block in architecture.blocks)]
    reached = _first_mark(model.graph, marks)
    found: list[list[str]] = [[] for _ in range(len(marks) + 1)]
    assigned: set[str] = set()
    for node, weight in reversed(_weights(model.graph)):  # a weight used twice belongs to its later use
        if weight not in assigned:
            assigned.add(weight)
            found[min(reached[name] for name in node.output)].append(weight)
    names = ["embedding", *(f"block {block.index}" for block in architecture.blocks), "head"]
    kept = [Stage(name, tuple(weights)) for name, weights in zip(names, found, strict=True) if weights]
    if not kept:
        raise InputError("no product of the graph has float weights to randomise; is the file quantised?")
    return tuple(reversed(kept))


def randomised(model: onnx.ModelProto, names: Sequence[str], seed: int = 0) -> onnx.ModelProto:
    """A copy of the model with these weights redrawn; new values do not depend on which other weights are redrawn."""
    new = onnx.ModelProto()
    new.CopyFrom(model)
    chosen = set(names)
    for place, tensor in enumerate(new.graph.initializer):
        if tensor.name in chosen:
            old = numpy_helper.to_array(tensor)
            rng = np.random.default_rng((seed, place))
            values = rng.normal(old.mean(dtype=np.float64), old.std(dtype=np.float64), old.shape)
            tensor.CopyFrom(numpy_helper.from_array(values.astype(old.dtype), tensor.name))
    return new


def sanity_check(
    model: onnx.ModelProto,
    architecture: Architecture,
    explain: Explain,
    *,
    folder: Path | None = None,
    mode: Mode = "cascading",
    seed: int = 0,
) -> tuple[Step, ...]:
    """Explain again after each stage is randomised: in cascading mode with all stages before it, else it alone."""
    if mode not in ("cascading", "independent"):
        raise InputError(f"randomisation mode: got {mode!r}, allowed: cascading, independent")
    whole = _self_contained(model, folder)
    original = list(explain(whole))
    found = []
    redrawn: list[str] = []
    for stage in stages(whole, architecture):
        redrawn = [*redrawn, *stage.weights] if mode == "cascading" else list(stage.weights)
        maps = explain(randomised(whole, redrawn, seed))
        found.append(Step(stage.name, _compare(original, maps)))
    return tuple(found)


def _compare(original: Sequence[Array], maps: Sequence[Array]) -> dict[str, tuple[float, ...]]:
    pairs = list(zip(original, maps, strict=True))
    return {name: tuple(alike(a, b) for a, b in pairs) for name, alike in SIMILARITIES.items()}


def _self_contained(model: onnx.ModelProto, folder: Path | None) -> onnx.ModelProto:
    """A copy with all weights inside, none in other files."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    if folder is not None:
        onnx.load_external_data_for_model(whole, str(folder))
    return whole


def _weights(graph: onnx.GraphProto) -> list[tuple[onnx.NodeProto, str]]:
    """Products with the names of their weights: stored floats of rank 2 or more, read directly or through copies."""
    stored = {t.name: t.name for t in graph.initializer if t.data_type in FLOATS and len(t.dims) > 1}
    found = []
    for node in graph.node:
        if node.op_type in PRODUCTS:
            found += [(node, stored[name]) for name in node.input if name in stored]
        elif node.op_type in ("Transpose", "Identity", "Cast", "Reshape") and node.input[0] in stored:
            stored[node.output[0]] = stored[node.input[0]]
    return found


def _first_mark(graph: onnx.GraphProto, marks: Sequence[str]) -> dict[str, int]:
    """For each tensor the index of the first mark that is it or depends on it; len(marks) if none does."""
    places = {name: place for place, name in reversed(list(enumerate(marks)))}
    reached: dict[str, int] = {}
    for node in reversed(graph.node):
        here = min(min(reached.get(name, len(marks)), places.get(name, len(marks))) for name in node.output if name)
        reached.update(dict.fromkeys((name for name in node.output if name), here))
        for name in node.input:
            reached[name] = min(here, reached.get(name, len(marks)))
    return reached
