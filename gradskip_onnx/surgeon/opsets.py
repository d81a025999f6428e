"""Versions of the operator set, and what is written differently from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# Squeeze, Unsqueeze and ReduceSum take their axes as an input from here on, and Softmax means one axis; the rules
# speak no older language, so older files are converted first.
OLDEST_OPSET = 13
AXES_INPUT_OPSET = 18  # the other reductions take their axes as an input from here on


def reduction_axes(op: str, axes: Sequence[int], opset: int) -> tuple[list[Sequence[int]], dict[str, Any]]:
    """How a reduction is told its axes: inputs to add behind the first one, and attributes."""
    since = OLDEST_OPSET if op == "ReduceSum" else AXES_INPUT_OPSET
    return ([axes], {}) if opset >= since else ([], {"axes": list(axes)})
