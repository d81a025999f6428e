"""Draws the images of docs/reading-a-picture.md and the README: `python -m tests.drawing.page_images docs/images`.

All show planted scenes, which may be published; photographs of data sets may not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import gradskip_onnx
from gradskip_onnx.demo import demo_image, demo_model
from gradskip_onnx.demo.scenes import backdrop, scene
from gradskip_onnx.drawing.blocks import beside
from gradskip_onnx.explanation import Explanation
from gradskip_onnx.types import Array

SIDE = 384  # pixels of a scene
SIGNED, EMPTY, LEFT, RIGHT = 1002, 1010, 1007, 1009  # seeds of scenes
SHIFT = 40  # pixels cut off at the left of a wide picture
LEVELS = 4  # brightness is rounded to multiples of so much: half the bytes, and no eye sees it
METHODS = ("gradskip+", "gradskip", "attnlrp", "grad-cam", "rollout")


@cache
def explainer(**preprocess: Any) -> gradskip_onnx.Explainer:
    return gradskip_onnx.load(demo_model(), preprocess=preprocess or None, cache=False)


def demo() -> Explanation:
    return explainer().explain(demo_image())


def signed() -> Explanation:
    """A scene in which a square speaks against the class."""
    return explainer().explain(Image.fromarray(scene(SIGNED, SIDE).image), opposing=1.0)


def nothing_there() -> Explanation:
    """A scene without any object of a class: a map is drawn all the same."""
    return explainer().explain(Image.fromarray(backdrop(EMPTY, SIDE)))


def cropped() -> Explanation:
    """A scene and a backdrop beside each other, of which the model sees the middle."""
    wide = beside([Image.fromarray(scene(LEFT, SIDE).image), Image.fromarray(backdrop(RIGHT, SIDE))], 0)
    return explainer(resize="short-side").explain(wide.crop((SHIFT, 0, SHIFT + SIDE * 3 // 2, SIDE)))


def smoothing() -> Image.Image:
    return beside([demo().overlay(smoothing=width, size=320) for width in (0, 0.4, 1.0)], 8)


def methods() -> Image.Image:
    found = [explainer().explain(demo_image(), method=method) for method in METHODS]
    return gradskip_onnx.side_by_side(found, size=260)


# file name -> what it shows
IMAGES: Mapping[str, Callable[[], Image.Image]] = {
    "demo.png": lambda: demo().figure(),
    "reading-signed.png": lambda: signed().figure(numbers=True, size=300),
    "reading-cropped.png": lambda: cropped().figure(size=420),
    "reading-nothing.png": lambda: nothing_there().figure(size=300),
    "reading-smoothing.png": smoothing,
    "reading-methods.png": methods,
    "reading-classes.png": lambda: gradskip_onnx.side_by_side(explainer().explain_likeliest(demo_image(), 3), size=260),
}


def pixels(name: str) -> Array:
    """(H, W, 3) bytes of an image, rounded."""
    rounded: Array = np.rint(np.asarray(IMAGES[name]()) / LEVELS) * LEVELS
    return np.minimum(rounded, 255).astype(np.uint8)


def write(folder: Path) -> None:
    """Write all images."""
    for name in IMAGES:
        Image.fromarray(pixels(name)).save(folder / name, optimize=True)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
