"""The embedded demo: a generator of images whose evidence is known, a model trained on them, one image."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

SEED = 3  # the image is `scenes.scene(SEED, SIDE)`, which also gives its class and the mask of its evidence
SIDE = 384


def demo_model() -> Path:
    """A plain ONNX vision transformer, trained on scenes."""
    return _shipped("vit.onnx")


def demo_image() -> Path:
    """A scene that the model has never seen."""
    return _shipped("image.png")


def _shipped(name: str) -> Path:
    return Path(str(files(__name__) / name))
