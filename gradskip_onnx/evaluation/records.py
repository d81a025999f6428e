"""Converts what was measured for one class of an image to a record of results.jsonl, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradskip_onnx.metrics import Measured

NAME = "results.jsonl"
DECIMALS = 5  # of curves, which are only drawn; all other numbers keep every digit


def case_document(target: int, measured: Measured, checks: Mapping[str, float]) -> dict[str, Any]:
    """The record of one class of an image."""
    curves = {name: np.round(curve, DECIMALS).tolist() for name, curve in measured.curves.items()}
    return {
        "target": target,
        "numbers": dict(measured.numbers),
        "curves": curves,
        "excluded": measured.excluded,
        "checks": dict(checks),
    }


def measured_of(case: Mapping[str, Any]) -> Measured:
    """The measurement in a record, without its curves."""
    return Measured(case["numbers"], excluded=case["excluded"])
