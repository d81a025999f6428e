"""The two models: what each is, what it learns from, for how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import nn

from benchmarks.training.onnx_file import preparation
from benchmarks.training.positions import start_as_waves
from gradskip_onnx.images.preprocess import PRESETS, Preprocess
from gradskip_onnx.types import Array

from . import bccd, cifar10
from .augment import shift_and_flip, turn_and_tint
from .labelled import Data

INIT = "jax"  # Glorot; the other choice, a fixed deviation of 0.02, starts a narrow network almost dead


@dataclass(frozen=True, slots=True)
class Recipe:
    """One row: the data, what is changed in it at will, the model, how its images are prepared, the schedule."""

    read: Callable[[Path], Data]
    augment: Callable[[Array, np.random.Generator], Array]
    build: Callable[[], nn.Module]
    labels: tuple[str, ...]
    preprocess: Preprocess
    epochs: int
    rate: float
    batch: int
    smoothing: float = 0.0  # of the labels


def build_pooled() -> nn.Module:
    """No class token: the mean of all patches is read. Half of the patches are hidden while it learns."""
    from timm.models.vision_transformer import VisionTransformer

    patch, width = 4, 128
    model: nn.Module = VisionTransformer(
        img_size=cifar10.SIDE,
        patch_size=patch,
        num_classes=len(cifar10.CLASSES),
        embed_dim=width,
        depth=6,
        num_heads=4,
        mlp_ratio=2.0,
        class_token=False,
        global_pool="avg",
        patch_drop_rate=0.5,
        weight_init=INIT,
    )
    start_as_waves(model, cifar10.SIDE // patch, width)
    return model


def build_registers() -> nn.Module:
    """A class token and four registers, queries and keys normalised, every branch scaled."""
    from timm.models.vision_transformer import VisionTransformer

    model: nn.Module = VisionTransformer(
        img_size=bccd.SIDE,
        patch_size=8,
        num_classes=len(bccd.CLASSES),
        embed_dim=64,
        depth=4,
        num_heads=4,
        mlp_ratio=3.0,
        reg_tokens=4,
        qk_norm=True,
        init_values=0.5,
        weight_init=INIT,
    )
    return model


RECIPES: dict[str, Recipe] = {
    "bccd": Recipe(
        bccd.read,
        turn_and_tint,
        build_registers,
        bccd.CLASSES,
        preparation(bccd.SIDE, **PRESETS["half"]),
        epochs=8,
        rate=1e-3,
        batch=32,
    ),
    "cifar10": Recipe(
        cifar10.read,
        shift_and_flip,
        build_pooled,
        cifar10.CLASSES,
        preparation(cifar10.SIDE, mean=(0.491, 0.482, 0.447), std=(0.247, 0.243, 0.262)),  # of its training images
        epochs=12,
        rate=1e-3,
        batch=64,
        smoothing=0.1,
    ),
}
