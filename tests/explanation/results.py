"""A made-up explanation, for tests of what is done with one."""

from __future__ import annotations

import numpy as np
from PIL import Image

from gradskip_onnx.explanation import Explanation
from gradskip_onnx.images.classes import Candidate
from gradskip_onnx.images.original import Original
from gradskip_onnx.images.preprocess import Geometry, Preprocess
from gradskip_onnx.types import BlockFacts, Grid, Relevance

LABELS = ("cat", "dog, hound", "fish")


def made_up(width: int = 32, height: int = 24, target: int = 0) -> Explanation:
    top = tuple(Candidate(i, label, 3.0 - i, 0.6 / (1 + i)) for i, label in enumerate(LABELS))
    scores = np.arange(12, dtype=np.float32).reshape(3, 4) / 66
    geometry = Geometry((height, width), (0.0, 0.0, float(width), float(height)))
    facts = BlockFacts(index=1, head_weights=(0.5, 0.5), flow=(1.0, float("nan")), gini=(0.1, 0.2), gate=0.5)
    return Explanation(
        map=geometry.place(scores),
        target=top[target],
        top=top,
        relevance=Relevance(scores, "gradskip", {"alpha": 0.5}, {"sum": 1.0}, (facts,), ("a note",)),
        preprocess=Preprocess(),
        geometry=geometry,
        provider="CPUExecutionProvider",
        model_sha256="ab" * 32,
        timings={"run": 0.25},
        grid=Grid(3, 4),
        original=Original("photos/cat.png", "cd" * 32, Image.new("RGB", (width, height), (30, 90, 60))),
        model="m.onnx",
    )
