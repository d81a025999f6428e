"""Converts element types; graphsurgeon has NumPy types or, for types that NumPy lacks (bfloat16), ONNX numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx


def numpy_type(kind: Any) -> np.dtype[Any]:
    """The element type as a NumPy dtype."""
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind) if isinstance(kind, int) else kind)


def onnx_type(kind: Any) -> int:
    """The element type as the number it has in ONNX, for `Cast` and stored tensors."""
    return int(kind if isinstance(kind, int) else onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
