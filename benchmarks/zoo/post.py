"""What is done to files after export: optimisers, other precisions, quantisers; one row each, from file to file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .exporters import INPUT

CALIBRATION, CALIBRATION_SEED = 4, 5
# Signed weights of seven bits. With eight, ONNX Runtime's products of unsigned and signed bytes overflow on processors
# without VNNI, and a file computes one thing here and another there (measured: logits off by 4 to 39 %).
NARROW = True
SMALL = 64  # elements: shorter tensors stay as they are when weights are stored in another type


@dataclass(frozen=True, slots=True)
class Work:
    """One job: a file, where the result goes, and the image size that calibration needs."""

    before: Path
    after: Path
    size: tuple[int, int]


Step = Callable[[Work], None]


def optimise(work: Work, level: str) -> None:
    """ONNX Runtime's own offline optimisation."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.optimized_model_filepath = str(work.after)
    ort.InferenceSession(str(work.before), options, providers=["CPUExecutionProvider"])


def fuse(work: Work, model_type: str) -> None:
    """The offline optimiser of onnxruntime.transformers, with ONNX Runtime's basic level before it."""
    from onnxruntime.transformers.optimizer import optimize_model

    optimize_model(str(work.before), model_type=model_type, opt_level=1).save_model_to_file(str(work.after))


def slim(work: Work) -> None:
    import onnxslim

    onnx.save(onnxslim.slim(str(work.before)), work.after)


def halve(work: Work, keep_io: bool) -> None:
    """float16 through onnxruntime.transformers."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(work.before), keep_io_types=keep_io), work.after)


def store_bfloat16(work: Work) -> None:
    """Weights kept as bfloat16 and widened where they are used.

    ONNX Runtime's CPU provider has no bfloat16 products, norms or softmax, so a file that also computes in bfloat16
    cannot be run there at all; one that stores it can.
    """
    model = onnx.load(work.before)
    casts = []
    for weight in model.graph.initializer:
        if weight.data_type == TensorProto.FLOAT and np.prod(weight.dims) > SMALL:
            array, name = numpy_helper.to_array(weight), weight.name
            weight.CopyFrom(numpy_helper.from_array(array.astype(_bfloat16()), f"{name}/bfloat16"))
            casts.append(helper.make_node("Cast", [weight.name], [name], f"{name}/widen", to=TensorProto.FLOAT))
    for place, cast in enumerate(casts):
        model.graph.node.insert(place, cast)
    onnx.save(model, work.after)


def _bfloat16() -> Any:
    return helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)


def _bare(path: Path) -> onnx.ModelProto:
    """The model without stored shapes: quantisers trip over those that exporters leave."""
    model = onnx.load(path)
    del model.graph.value_info[:]
    return model


def quantise_dynamically(work: Work, weights: str, narrow: bool) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    kind = getattr(QuantType, weights)
    quantize_dynamic(_bare(work.before), work.after, weight_type=kind, reduce_range=narrow)


class Calibration:
    """A few pictures, one at a time, as ONNX Runtime's quantiser wants them."""

    def __init__(self, size: tuple[int, int]) -> None:
        from .reference import pictures

        self.left: Iterator[Any] = iter(pictures(size, CALIBRATION, CALIBRATION_SEED))

    def get_next(self) -> dict[str, Any] | None:
        image = next(self.left, None)
        return None if image is None else {INPUT: image[None]}


def quantise_statically(work: Work, form: str, **options: Any) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    CalibrationDataReader.register(Calibration)
    prepared = work.after.with_suffix(".prepared")
    onnx.save(_bare(work.before), prepared)
    try:
        quant_pre_process(prepared, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared, work.after, Calibration(work.size), quant_format=getattr(QuantFormat, form),
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, reduce_range=NARROW, **options,
        )  # fmt: skip
    finally:
        prepared.unlink(missing_ok=True)


def quantise_weights(work: Work, form: str) -> None:
    """Four bits a weight in blocks of 16."""
    from onnxruntime.quantization import QuantFormat
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantiser = MatMulNBitsQuantizer(
        onnx.load(work.before), bits=4, block_size=16, is_symmetric=True, quant_format=getattr(QuantFormat, form)
    )
    quantiser.process()
    quantiser.model.save_model_to_file(str(work.after))


@dataclass(frozen=True, slots=True)
class Post:
    """One row: the step, and the kind of arithmetic that comes out, which decides how a file is judged."""

    step: Step
    kind: str = "float32"


POSTS: dict[str, Post] = {
    "ort_basic": Post(partial(optimise, level="BASIC")),
    "ort_extended": Post(partial(optimise, level="EXTENDED")),
    "ort_all": Post(partial(optimise, level="ALL")),
    "fused_vit": Post(partial(fuse, model_type="vit")),
    "fused_bert": Post(partial(fuse, model_type="bert")),
    "fused_swin": Post(partial(fuse, model_type="swin")),
    "fused_clip": Post(partial(fuse, model_type="clip")),
    "slim": Post(slim),
    "fp16": Post(partial(halve, keep_io=False), "float16"),
    "fp16_keep_io": Post(partial(halve, keep_io=True), "float16"),
    "bf16_weights": Post(store_bfloat16, "bfloat16"),
    "dynamic_int8": Post(partial(quantise_dynamically, weights="QInt8", narrow=NARROW), "quantised"),
    "dynamic_uint8": Post(partial(quantise_dynamically, weights="QUInt8", narrow=False), "quantised"),
    "static_qdq": Post(partial(quantise_statically, form="QDQ"), "quantised"),
    "static_qdq_channels": Post(partial(quantise_statically, form="QDQ", per_channel=True), "quantised"),
    "static_qoperator": Post(partial(quantise_statically, form="QOperator"), "quantised"),
    "int4_nbits": Post(partial(quantise_weights, form="QOperator"), "quantised"),
    "int4_qdq": Post(partial(quantise_weights, form="QDQ"), "quantised"),
}
