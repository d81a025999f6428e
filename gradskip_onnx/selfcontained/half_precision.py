"""A model with weights and arithmetic in half precision; its inputs and outputs stay as they are."""

from __future__ import annotations

import warnings
from dataclasses import replace

import onnx

from gradskip_onnx.errors import InputError
from gradskip_onnx.graph.architecture import Reading, read
from gradskip_onnx.graph.find.head import Told
from gradskip_onnx.model_file.mapped_weights import lies_elsewhere
from gradskip_onnx.types import Source


def in_half(source: Source, reading: Reading) -> tuple[Source, Reading]:
    """The same model in float16, read anew, so that every claim about it is proven of what is written."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = onnx.ModelProto()
    model.CopyFrom(source.model)
    if any(lies_elsewhere(tensor) for tensor in model.graph.initializer):
        onnx.load_external_data_for_model(model, str(source.folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numbers below the smallest of float16, which become that
        try:
            half = convert_float_to_float16(model, keep_io_types=True)
        except (ValueError, RuntimeError, onnx.checker.ValidationError) as failure:
            reason = str(failure).strip().splitlines()[0][:200]
            raise InputError(f"{source.name} cannot be converted to float16: {reason}") from failure
    found = replace(source, model=half, folder=None, others=(), before_upgrade=None)
    architecture = reading.architecture
    told = Told(architecture.task, (architecture.classes,))
    outputs = tuple(tensor.name for tensor in reading.graph.outputs)
    return found, read(found, size=architecture.input_dims.size, outputs=outputs, told=told)
