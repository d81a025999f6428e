"""Tensors that hold one number everywhere, whatever their shape: masks that hide nothing, mostly."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from gradskip_onnx.operators import Kind, of_kind

# They move or repeat what their first input holds, and nothing else: no zeros, no other input, no other type.
MOVES = of_kind(Kind.MOVES) - {"Cast", "CastLike", "Concat", "Dropout", "Pad", "Trilu"}


def uniform(tensor: Any) -> Any | None:
    """The number (a NumPy scalar) that a tensor holds everywhere; None if it does not, or if that is unknown."""
    if isinstance(tensor, gs.Constant):
        values = np.asarray(tensor.values).ravel()
        return values[0] if len(values) and (values == values[0]).all() else None
    node = tensor.inputs[0] if tensor.inputs else None
    if node is None:
        return None
    if node.op in MOVES:
        return uniform(node.inputs[0])
    if node.op == "ConstantOfShape":
        return np.asarray(node.attrs["value"].values).ravel()[0] if "value" in node.attrs else np.float32(0)
    if node.op == "Cast":
        value = uniform(node.inputs[0])
        return None if value is None else value.astype(onnx.helper.tensor_dtype_to_np_dtype(int(node.attrs["to"])))
    if node.op == "Where":
        condition = uniform(node.inputs[0])
        return None if condition is None else uniform(node.inputs[1 if condition else 2])
    return None
