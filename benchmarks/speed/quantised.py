"""What an explanation costs beside the file's own forward pass, for a float file and for its quantised forms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradskip_onnx import api
from gradskip_onnx.types import Array

from .cases import Case, inputs, written
from .contenders import PLAIN, PLUS, plain_session
from .measure import Contender, interleaved
from .results import Result

FLOAT, DYNAMIC, QDQ, QOPERATOR = "float32", "dynamic int8", "static int8, QDQ", "static int8, QOperator"
CALIBRATED_ON = 8  # images


def measure_quantised(name: str, case: Case, folder: Path, threads: int, rounds: int) -> list[Result]:
    """A result for each form of a file, all from the same rounds."""
    files = _files(case, folder)
    calls: dict[str, Contender] = {}
    for form, file in files.items():
        calls |= {f"{form}/{what}": call for what, call in _contenders(case, file, threads).items()}
    timings = interleaved(calls, rounds)
    return [Result(name, 1, {what: timings[f"{form}/{what}"] for what in (PLAIN, PLUS)}, form=form) for form in files]


def _contenders(case: Case, file: Path, threads: int) -> dict[str, Contender]:
    explainer = api.load(file, "cpu", threads=threads, cache=False)
    images, session = inputs(case, explainer, 1), plain_session(file, threads)
    feeds = {session.get_inputs()[0].name: images}
    explainer.explain(images, method="gradskip+")  # opens its session, which is no part of a pass
    return {PLAIN: lambda: session.run(None, feeds), PLUS: lambda: explainer.explain(images, method="gradskip+")}


def _files(case: Case, folder: Path) -> dict[str, Path]:
    """The float file and its quantised forms, each written once, as docs/quantised.md makes them."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    plain = written(case, folder)
    found = {
        FLOAT: plain, DYNAMIC: plain.with_suffix(".dynamic.onnx"), QDQ: plain.with_suffix(".qdq.onnx"),
        QOPERATOR: plain.with_suffix(".qoperator.onnx"),
    }  # fmt: skip
    weights: dict[str, Any] = {"weight_type": QuantType.QInt8, "reduce_range": True}
    if not found[DYNAMIC].exists():
        quantize_dynamic(plain, found[DYNAMIC], **weights)
    absent = [form for form in (QDQ, QOPERATOR) if not found[form].exists()]
    if absent:
        prepared = plain.with_suffix(".prepared.onnx")
        quant_pre_process(str(plain), str(prepared), skip_symbolic_shape=True)
        explainer = api.load(plain, "cpu", cache=False)
        images = inputs(case, explainer, CALIBRATED_ON)
        for form in absent:
            kind = QuantFormat.QDQ if form == QDQ else QuantFormat.QOperator
            reader: Any = _Calibration(explainer.architecture.input, images)
            quantize_static(
                prepared, found[form], reader, quant_format=kind, activation_type=QuantType.QUInt8, **weights
            )
        prepared.unlink()
    return found


class _Calibration:
    """Images one by one, as the quantiser asks for them."""

    def __init__(self, name: str, images: Array) -> None:
        self.left: Iterator[dict[str, Array]] = iter([{name: image[None]} for image in images])

    def get_next(self) -> dict[str, Array] | None:
        return next(self.left, None)
