"""Element types, which graphsurgeon gives as NumPy's or, for those that NumPy lacks (bfloat16), as ONNX's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx


def numpy_type(kind: Any) -> np.dtype[Any]:
    """The element type as NumPy knows it."""
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind) if isinstance(kind, int) else kind)


def onnx_type(kind: Any) -> int:
    """The element type as ONNX numbers it, for `Cast` and for stored tensors."""
    return int(kind if isinstance(kind, int) else onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
