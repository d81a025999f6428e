"""Versions of the ONNX operator set, and what differs between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# From this version on Squeeze, Unsqueeze and ReduceSum take their axes as an input, and Softmax works on one axis. The
# rules write no older form, so older files are converted first.
OLDEST_OPSET = 13
AXES_INPUT_OPSET = 18  # from this version on the other reductions take their axes as an input too


def reduction_axes(op: str, axes: Sequence[int], opset: int) -> tuple[list[Sequence[int]], dict[str, Any]]:
    """The axes of a reduction as further inputs or as attributes, depending on operator and opset."""
    since = OLDEST_OPSET if op == "ReduceSum" else AXES_INPUT_OPSET
    return ([axes], {}) if opset >= since else ([], {"axes": list(axes)})
