"""The models that are timed, with seeded random weights: passes take as long as with trained ones, the Gini less."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gradskip_onnx.exporters.sources import Request


@dataclass(frozen=True, slots=True)
class Case:
    """A model by its exporter's name; a small size and few classes for runs that only show that all works."""

    name: str
    size: tuple[int, int] | None = None
    classes: int | None = None

    @property
    def request(self) -> Request:
        return Request(self.name, size=self.size, classes=self.classes, random_weights=True)


CASES: dict[str, Case] = {
    "ViT-tiny": Case("vit_tiny_patch16_224"),
    "ViT-B/16": Case("vit_base_patch16_224"),
    "DeiT-B distilled": Case("deit_base_distilled_patch16_224"),
    "SegFormer-B0": Case("segformer_b0", size=(512, 512)),
}
QUICK: dict[str, Case] = {
    "ViT-tiny": Case("vit_tiny_patch16_224", size=(32, 32), classes=10),
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
