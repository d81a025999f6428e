"""Random passes through imaginary models: as Layers for the slow twins, as Trace and Architecture for the methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradskip_onnx.types import Architecture, Array, Block, Grid, ImageDims, Needs, Trace, read_only

from .oracles import Layer


@dataclass(frozen=True)
class Stage:
    """Some blocks on one grid; `special` are the positions of tokens that are no patch."""

    grid: tuple[int, int]
    blocks: int = 2
    heads: int = 2
    side: int = 1
    special: tuple[int, ...] = ()
    channels: int = 4


@dataclass(frozen=True)
class Model:
    """Stages from fine to coarse; `pooled` says that only the special tokens of the last block reach the score."""

    stages: tuple[Stage, ...]
    pooled: bool = False


MODELS = {
    "vit": Model((Stage((3, 4), blocks=4, heads=3, special=(0,), channels=5),), pooled=True),
    "distilled": Model((Stage((4, 3), blocks=3, heads=3, special=(0, 1)),), pooled=True),
    "registers": Model((Stage((3, 3), blocks=3, special=(0, 4, 11)),), pooled=True),
    "average pool": Model((Stage((4, 4), blocks=4, heads=3),)),
    "segformer": Model(
        (
            Stage((16, 8), heads=1, side=8, channels=2),
            Stage((8, 4), heads=2, side=4, channels=3),
            Stage((4, 2), heads=3, side=2),
            Stage((2, 1), heads=4, side=1, channels=6),
        )
    ),
    "odd grids": Model((Stage((5, 7), side=1), Stage((3, 4), blocks=1, channels=6), Stage((2, 2), channels=6))),
    "left over": Model((Stage((5, 7), blocks=3, heads=1, side=2),)),  # one row and one column are in no window
}


def layers_of(model: Model, seed: int = 0) -> list[Layer]:
    """Gradients of one tensor are one array: what leaves a block enters the next with the same gradient."""
    rng, of_norms = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    layers: list[Layer] = []
    for number, stage in enumerate(model.stages):
        patches = stage.grid[0] * stage.grid[1]
        tokens = patches + len(stage.special)
        keys = tokens if stage.side == 1 else (stage.grid[0] // stage.side) * (stage.grid[1] // stage.side)
        stream, d_stream = rng.normal(size=(2, tokens, stage.channels))
        for _ in range(stage.blocks):
            logits = rng.normal(size=(stage.heads, tokens, keys)) * rng.uniform(0.5, 3, size=(stage.heads, 1, 1))
            attention = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
            normed, d_normed = of_norms.normal(size=(2, tokens, stage.channels))
            added, rest, d_out, d_added = rng.normal(size=(4, tokens, stage.channels))
            layer = Layer(
                attention=single(attention),
                came_in=single(stream),
                went_out=single(stream + added + rest),
                added=single(added),
                d_in=single(d_stream),
                d_out=single(d_out * rng.uniform(0.01, 5)),
                d_added=single(d_added),
                normed=single(normed),
                d_normed=single(d_normed),
                grid=stage.grid,
                side=stage.side,
                stage=number,
                special=stage.special,
            )
            layers.append(layer)
            stream, d_stream = layer.went_out, layer.d_out
    if model.pooled:
        special = list(layers[-1].special)
        layers[-1] = replace(
            layers[-1], d_out=only(layers[-1].d_out, special), d_added=only(layers[-1].d_added, special)
        )
    return layers


def single(array: Array) -> Array:
    """Read-only float32, the same object if it already is."""
    return array if array.dtype == np.float32 else read_only(array.astype(np.float32))


def only(array: Array, rows: list[int]) -> Array:
    """Zero but for some rows."""
    kept = np.zeros_like(array)
    kept[rows] = array[rows]
    return kept


def shown(layers: list[Layer], needs: Callable[[Architecture], Needs] | None = None) -> tuple[Trace, Architecture]:
    """What the pipeline would hand to a method that has these needs (None: everything)."""
    architecture = architecture_of(layers)
    asked = None if needs is None else needs(architecture)
    values: dict[str, Array] = {}
    gradients: dict[str, Array] = {}
    for at, (layer, block) in enumerate(zip(layers, architecture.blocks, strict=True)):
        arrays: dict[str, tuple[Array, Array | None]] = {
            "tokens_in": (layer.came_in, layer.d_in),
            "tokens_out": (layer.went_out, layer.d_out),
            "attention": (layer.attention, None),
            "branch": (layer.added, layer.d_added),
            "normed": (layer.normed, layer.d_normed),
        }
        for field, (value, gradient) in arrays.items():
            name = getattr(block, field)
            if asked is None or at in getattr(asked, field):
                values[name] = value
            if gradient is not None and (asked is None or at in getattr(asked, f"{field}_gradients")):
                gradients[name] = gradient
    return Trace(np.zeros((3, 32, 32)), np.zeros(10), 3, values, gradients), architecture


def architecture_of(layers: list[Layer]) -> Architecture:
    """What the graph of such blocks would be read as."""
    blocks: list[Block] = []
    for at, layer in enumerate(layers):
        before = layers[at - 1]
        same = at > 0 and before.went_out is layer.came_in and before.d_out is layer.d_in
        names = {
            "tokens_in": f"out{at - 1}" if same else f"enter{at}",
            "tokens_out": f"out{at}",
            "attention": f"attention{at}",
            "branch": f"branch{at}",
            "normed": f"normed{at}",
        }
        facts: dict[str, Any] = {"grid": Grid(*layer.grid), "reduction": layer.side, "special": layer.special}
        blocks.append(Block(index=at, stage=layer.stage, heads=len(layer.attention), **(facts | names)))
    return Architecture(
        task="classification",
        input="pixels",
        input_dims=ImageDims(3, 32, 32),
        input_layout="bchw",
        logits="logits",
        classes=10,
        blocks=tuple(blocks),
    )
