"""Metrics of explanations: a table of rows that work on arrays and on a function that runs the model.

Importing this package imports every module in it, which fills the table: a new metric is one new file.
"""

from __future__ import annotations

from gradskip_onnx.imports.discovery import import_modules

from .sample import BATCH, IGNORED, Box, Remembering, Saliency, Sample, Score
from .table import METRICS, Choice, ImageMetric, Measured, Metric, choose, measure

__all__ = [
    "BATCH", "IGNORED", "METRICS", "Box", "Choice", "ImageMetric", "Measured", "Metric", "Remembering", "Saliency",
    "Sample", "Score", "choose", "measure",
]  # fmt: skip

import_modules(__path__, __name__)
