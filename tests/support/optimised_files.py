"""Files as ONNX Runtime writes them back: fused operators, folded constants."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime


def optimised(model: onnx.ModelProto, level: str, folder: Path) -> onnx.ModelProto:
    """The model at a level of optimisation (BASIC, EXTENDED, ALL), by way of a file in `folder`."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(options.optimized_model_filepath)
