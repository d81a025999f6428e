"""The models that are timed: seeded random weights, which suit all but the Gini, and one model that was trained."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gradskip_onnx.exporters.request import ExportRequest

from gradskip_onnx import api
from gradskip_onnx.graph.architecture import read
from gradskip_onnx.graph.read.load import load
from gradskip_onnx.images.preprocess import prepare
from gradskip_onnx.images.read import open_picture
from gradskip_onnx.selfcontained.save import save
from gradskip_onnx.selfcontained.tensors import show_tensors
from gradskip_onnx.types import Array

ASSETS = os.environ.get("GRADSKIP_ASSETS", "")


@dataclass(frozen=True, slots=True)
class Case:
    """A model by its exporter's name; a small size and few classes for runs that only show that all works."""

    name: str
    size: tuple[int, int] | None = None
    classes: int | None = None
    trained: str = ""  # weights, below the folder of assets; its photographs are the input then
    rounds: tuple[int, int] = (7, 3)  # for one image, and for more
    batches: tuple[int, ...] = (1,)
    compiled: bool = False  # whether torch.compile takes part: it takes minutes
    quantised: bool = False  # whether to measure its quantised forms
    apart: bool = False  # whether to measure fresh processes too
    several: bool = False  # whether to time five classes of an image too

    @property
    def request(self) -> ExportRequest:
        checkpoint = Path(ASSETS) / self.trained if self.trained else None
        return ExportRequest(self.name, checkpoint, self.size, self.classes, random_weights=not self.trained)

    @property
    def absent(self) -> str:
        """Why the case cannot be run here, if it cannot."""
        return "GRADSKIP_ASSETS names no folder with its weights" if self.trained and not self._there() else ""

    def _there(self) -> bool:
        return bool(ASSETS) and (Path(ASSETS) / self.trained).is_file()


CASES: dict[str, Case] = {
    "ViT-tiny": Case("vit_tiny_patch16_224", rounds=(15, 5), batches=(1, 8), several=True),
    "DeiT-tiny, trained": Case(
        "deit_tiny_patch16_224",
        trained="deit_tiny/deit_tiny_patch16_224.pth",
        rounds=(15, 5),
        several=True,
        quantised=True,
    ),
    "ViT-B/16": Case("vit_base_patch16_224", batches=(1, 8), apart=True, compiled=True, quantised=True),
    "DeiT-B distilled": Case("deit_base_distilled_patch16_224"),
    "SegFormer-B0": Case("segformer_b0", size=(512, 512), compiled=True),
}
QUICK: dict[str, Case] = {
    "ViT-tiny": Case("vit_tiny_patch16_224", size=(32, 32), classes=10, apart=True, several=True, quantised=True),
    "SegFormer-B0": Case("segformer_b0", size=(64, 64), classes=5),
}


def written(case: Case, folder: Path) -> Path:
    """The model as a plain ONNX file, written once."""
    sides = "x".join(str(side) for side in case.size or ())
    path = folder / f"{case.name}{sides}.onnx"
    if not path.exists():
        from gradskip_onnx.exporters.pipeline import export

        folder.mkdir(parents=True, exist_ok=True)
        export(case.request, path, plain=True).require_sound()
    return path


def with_gradients(explainer: api.Explainer, file: Path) -> int:
    """How many bytes the model takes with its gradient graph in the file, as `gradskip-onnx export` writes it."""
    source = load(file)
    model = show_tensors(source, read(source), preprocess=explainer.preprocess, labels=explainer.labels)
    with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
        files = save(model, Path(scratch) / file.name, source)
        return sum(path.stat().st_size for path in files)


def inputs(case: Case, explainer: api.Explainer, batch: int) -> Array:
    """Noise, or photographs for weights that were trained on such."""
    if not case.trained:
        shape = (batch, *explainer.architecture.input_dims)
        return np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    photographs = sorted((Path(ASSETS) / "images").iterdir())[:batch]
    return np.stack([prepare(open_picture(path).image, explainer.preprocess)[0] for path in photographs])
