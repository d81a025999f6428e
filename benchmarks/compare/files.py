"""The files of DeiT-tiny that are compared with its float32 file: a row each, made by ONNX Runtime's own tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import gradskip_onnx

CALIBRATION = 32  # photographs from which static quantisation takes its scales; none of them is compared on
Make = Callable[[Path, Path, Path], None]  # (float32 file, photographs to calibrate on, file to write)


class Photographs:
    """Photographs as the model takes them, one at a time, as ONNX Runtime's quantiser wants them."""

    def __init__(self, model: Path, folder: Path) -> None:
        explainer = gradskip_onnx.load(model)
        self.name = explainer.architecture.input
        paths = sorted(folder.glob("*.JPEG"))
        chosen = [paths[int(at)] for at in np.linspace(0, len(paths) - 1, CALIBRATION)]
        self.left: Iterator[Any] = iter([explainer.prepare(path).values for path in chosen])

    def get_next(self) -> dict[str, Any] | None:
        image = next(self.left, None)
        return None if image is None else {self.name: image[None]}


def dynamic(source: Path, _photographs: Path, target: Path) -> None:
    """Weights of seven bits in int8; scales of activations are found at run time."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(source, target, weight_type=QuantType.QInt8, reduce_range=True)


def static(source: Path, photographs: Path, target: Path, *, form: str) -> None:
    """Scales of activations found on photographs beforehand."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    CalibrationDataReader.register(Photographs)
    prepared = target.with_suffix(".prepared")
    try:
        quant_pre_process(source, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared, target, Photographs(source, photographs), quant_format=getattr(QuantFormat, form),
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, reduce_range=True,
        )  # fmt: skip
    finally:
        prepared.unlink(missing_ok=True)


def float16(source: Path, _photographs: Path, target: Path) -> None:
    """All computations in float16, inputs and outputs in float32."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), target)


def four_bits(source: Path, _photographs: Path, target: Path) -> None:
    """Weights of four bits in blocks of 16."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantiser = MatMulNBitsQuantizer(onnx.load(source), bits=4, block_size=16, is_symmetric=True)
    quantiser.process()
    quantiser.model.save_model_to_file(str(target))


FILES: Mapping[str, Make] = {
    "float16": float16,
    "dynamic-int8": dynamic,
    "static-QDQ": partial(static, form="QDQ"),
    "static-QOperator": partial(static, form="QOperator"),
    "four-bits": four_bits,
}
