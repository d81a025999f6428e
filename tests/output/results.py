"""A made-up explanation, for tests of what is done with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gradskip_onnx.images.preprocess import Geometry, Preprocess
from gradskip_onnx.types import Array, BlockFacts, Relevance


@dataclass(frozen=True)
class FakeCandidate:
    index: int
    label: str
    logit: float
    probability: float


@dataclass(frozen=True, eq=False)
class FakeExplanation:
    map: Array
    geometry: Geometry
    target: FakeCandidate
    top: tuple[FakeCandidate, ...]
    relevance: Relevance
    preprocess: Preprocess = field(default_factory=Preprocess)
    provider: str = "CPUExecutionProvider"
    model_sha256: str = "ab" * 32
    timings: Mapping[str, float] = field(default_factory=lambda: {"run": 0.25})
    warnings: tuple[str, ...] = ()


LABELS = ("cat", "dog, hound", "fish")


def fake_explanation(width: int = 32, height: int = 24, target: int = 0) -> FakeExplanation:
    top = tuple(FakeCandidate(i, label, 3.0 - i, 0.6 / (1 + i)) for i, label in enumerate(LABELS))
    scores = np.arange(12, dtype=np.float32).reshape(3, 4) / 66
    geometry = Geometry((height, width), (0.0, 0.0, float(width), float(height)))
    facts = BlockFacts(index=1, head_weights=(0.5, 0.5), flow=(1.0, float("nan")), gini=(0.1, 0.2), gate=0.5)
    relevance = Relevance(scores, "gradskip", {"alpha": 0.5}, {"sum": 1.0}, (facts,), ("a note",))
    return FakeExplanation(geometry.place(scores), geometry, top[target], top, relevance)
