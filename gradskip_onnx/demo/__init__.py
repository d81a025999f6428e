"""The embedded demo: a generator of images with known evidence, a model trained on them, and one image."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

SEED = 3  # the image is `scenes.scene(SEED, SIDE)`, which also returns its class and the mask of its evidence
SIDE = 384


def demo_model() -> Path:
    """Path of a plain ONNX vision transformer trained on scenes."""
    return _shipped("vit.onnx")


def demo_image() -> Path:
    """Path of a scene that the model was not trained on."""
    return _shipped("image.png")


def _shipped(name: str) -> Path:
    return Path(str(files(__name__) / name))
