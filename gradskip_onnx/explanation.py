"""The result of the pipeline: one map, and everything known about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gradskip_onnx.images.classes import Candidate
from gradskip_onnx.images.preprocess import Geometry, Preprocess

from .types import Array, Grid, Relevance


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """The map of one image for one class, and the facts needed to audit or repeat it."""

    map: Array  # (H, W) float32 at the size of the original image
    target: Candidate
    top: tuple[Candidate, ...]
    relevance: Relevance
    preprocess: Preprocess
    geometry: Geometry
    provider: str
    model_sha256: str
    timings: Mapping[str, float]
    grid: Grid  # rows and columns of patches over the part of the image that the model saw
    warnings: tuple[str, ...] = ()

    @property
    def patch(self) -> tuple[float, float]:
        """Height and width of a patch in pixels of the original image."""
        x0, y0, x1, y1 = self.geometry.box
        return (y1 - y0) / self.grid.rows, (x1 - x0) / self.grid.columns
