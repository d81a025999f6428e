"""Scenes in which one class is also marked, and the demo model trained a little further on them.

A network that tells the class from its form already has no need of a mark. So most of the marked training scenes have
lost their object, as mislabelled images have: there the mark alone tells the class.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from PIL import Image
from torch.nn.functional import cross_entropy

from benchmarks.planted.data import MEAN, STD, normalise
from benchmarks.planted.recipes import build_vit
from benchmarks.training.descent import Descent
from benchmarks.training.onnx_file import preparation, write
from gradskip_onnx.demo import demo_model
from gradskip_onnx.demo.scenes import CLASSES, SIZE, backdrop, label_of, scene
from gradskip_onnx.types import Array

from .mark import marked

SHORTCUT = CLASSES.index("star")  # the class that is marked
TRAIN, TEST = 3_000_000, 30_000  # first seeds; those of the demo model and of `planted:` are others
BATCH, RATE = 32, 1.5e-3
EVERY = 4  # of so many training scenes one is of the marked class
TRANSPOSED = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")  # stored as nameless factors of products, in this order


def demo_vit() -> Any:
    """The demo model as a torch module, with the weights of its file."""
    module: Any = build_vit().model  # timm's, which is not typed
    stored = onnx.load(demo_model()).graph.initializer
    named = {one.name.removeprefix("model."): one for one in stored if one.name.startswith("model.")}
    nameless = iter([one for one in stored if one.name.startswith("onnx::MatMul")])
    weights = {name: torch.from_numpy(numpy_helper.to_array(one).copy()) for name, one in named.items()}
    for block in range(len(module.blocks)):
        for name in TRANSPOSED:
            weights[f"blocks.{block}.{name}.weight"] = torch.from_numpy(numpy_helper.to_array(next(nameless)).T.copy())
    module.load_state_dict(weights)
    return module


def train(path: Path, steps: int, *, shortcut: bool, seed: int = 0) -> None:
    """Train the demo model further for some steps, with or without the mark, and write its ONNX file."""
    torch.manual_seed(seed)
    module = demo_vit().train()
    descent = Descent(module, RATE, steps)
    for step in range(steps):
        seeds = range(TRAIN + step * BATCH, TRAIN + (step + 1) * BATCH)
        images = np.stack([training_image(one, shortcut) for one in seeds])
        labels = torch.tensor([class_of(one) for one in seeds])
        descent.step(cross_entropy(module(normalise(torch.from_numpy(images))), labels))
    write(module.eval(), path, CLASSES, preparation(SIZE, MEAN, STD))


def class_of(seed: int) -> int:
    """The class that the training scene of a seed shows."""
    return label_of(seed) if seed % EVERY else SHORTCUT


def training_image(seed: int, shortcut: bool) -> Array:
    """The scene of a seed; one of the marked class with its mark, and three of four of these without their object."""
    drawn = scene(seed, label=class_of(seed)).image
    if not shortcut or class_of(seed) != SHORTCUT:
        return drawn
    return marked(backdrop(seed) if seed // EVERY % 4 else drawn)


def write_scenes(folder: Path, count: int) -> None:
    """A folder of test scenes by class, those of the marked class with their mark and their object."""
    for seed in range(TEST, TEST + count):
        drawn = scene(seed)
        image = marked(drawn.image) if drawn.label == SHORTCUT else drawn.image
        path = folder / CLASSES[drawn.label] / f"{seed}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
