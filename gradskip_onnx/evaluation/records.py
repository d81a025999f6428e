"""Converts what was measured for one class of an image to a record of results.jsonl, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gradskip_onnx.metrics import Measured

NAME = "results.jsonl"
DECIMALS = 5  # of curves, which are only drawn; all other numbers keep every digit


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says about an image: the probability of the class explained, and the likeliest class."""

    probability: float
    predicted: int


def case_document(
    target: int, measured: Measured, checks: Mapping[str, float], answer: Answer | None = None
) -> dict[str, Any]:
    """The record of one class of an image; `answer` is what the model said about it, where it was asked."""
    curves = {name: np.round(curve, DECIMALS).tolist() for name, curve in measured.curves.items()}
    return {
        "target": target,
        "numbers": dict(measured.numbers),
        "curves": curves,
        "excluded": measured.excluded,
        "checks": dict(checks),
        **({} if answer is None else asdict(answer)),
    }


def answer_of(case: Mapping[str, Any]) -> Answer | None:
    """What the model said, if the record holds it."""
    return Answer(case["probability"], case["predicted"]) if "predicted" in case else None


def measured_of(case: Mapping[str, Any]) -> Measured:
    """The measurement in a record, without its curves."""
    return Measured(case["numbers"], excluded=case["excluded"])
