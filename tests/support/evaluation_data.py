"""A tiny model and a folder of tiny labelled pictures for the tests of evaluations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from gradskip_onnx import api
from gradskip_onnx.api import Explainer
from gradskip_onnx.images.preprocess import Preprocess

from . import models

SIDE = 32
PREPROCESS = Preprocess(size=(SIDE, SIDE), crop=1.0, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
FLAGS = ("--mean", "0.5", "0.5", "0.5", "--std", "0.25", "0.25", "0.25", "--crop", "1.0")


def model_bytes() -> bytes:
    return bytes(models.vit(models.Vit(heads=4, depth=3)).SerializeToString())


def explainer() -> Explainer:
    return api.load(model_bytes(), preprocess=PREPROCESS, threads=1)


def pictures(folder: Path, count: int) -> Path:
    """Noise of various brightness; image i has the label i mod 5."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    for at in range(count):
        pixels = rng.integers(0, 100 + 30 * (at % 5), (SIDE, SIDE, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{at:02}.png")
    table = "".join(f"{at:02}.png,{at % 5}\n" for at in range(count))
    (folder / "labels.csv").write_text("file,label\n" + table, encoding="utf-8")
    return folder
