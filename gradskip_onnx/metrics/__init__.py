"""Metrics of explanations: a table of rows that work on arrays and on a function that asks the model."""

from __future__ import annotations

from . import faithfulness as faithfulness
from . import insertion_deletion as insertion_deletion
from . import pointing as pointing
from . import segmentation as segmentation
from .sample import BATCH, IGNORED, Box, Remembering, Saliency, Sample, Score
from .table import METRICS, Choice, ImageMetric, Measured, Metric, choose, measure

__all__ = [
    "BATCH", "IGNORED", "METRICS", "Box", "Choice", "ImageMetric", "Measured", "Metric", "Remembering", "Saliency",
    "Sample", "Score", "choose", "measure",
]  # fmt: skip
