"""The chart of a comparison: each measure over the images, the least alike first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradskip_onnx.evaluation.chart import Chart, chart
from gradskip_onnx.evaluation.gather import Curve

from .measures import MEASURES
from .pairs import Pairs

POINTS = 101


def similarity_chart(pairs: Pairs) -> Chart | None:
    """A line a measure; None where no pair has a value."""
    curves = {}
    for measure in MEASURES:
        values = pairs.columns[measure.name]
        known = values[~np.isnan(values)]
        if len(known):
            shares = np.linspace(0, 1, POINTS)
            curves[measure.name] = Curve(shares, np.quantile(known, shares), 0)
    names = tuple(measure.name for measure in MEASURES)
    if not curves:
        return None
    drawn = chart("", "similarity", curves, names)
    return replace(drawn, title="How alike the maps are", x_title="share of images, the least alike first")
