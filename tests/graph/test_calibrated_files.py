"""Files that ONNX Runtime quantised with few calibration images: explained, and as the file from before is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from PIL import Image

import gradskip_onnx
from gradskip_onnx.demo import demo_image, demo_model
from gradskip_onnx.images.preprocess import prepare
from gradskip_onnx.types import Array
from tests.support.command_line import run
from tests.support.photographs import picture

SATURATED = "few entries of the attention saturate"


class Images(CalibrationDataReader):  # type: ignore[misc]
    """The demo image and smooth colours, as the demo model takes them."""

    def __init__(self, count: int) -> None:
        explainer = gradskip_onnx.load(demo_model(), cache=False)
        self.name, how = explainer.architecture.input, explainer.preprocess
        with Image.open(demo_image()) as first:
            chosen = [first.convert("RGB"), *(picture(96, 96, seed) for seed in range(1, count))]
        self.arrays: Iterator[Array] = iter([prepare(image, how)[0] for image in chosen])

    def get_next(self) -> dict[str, Array] | None:
        array = next(self.arrays, None)
        return None if array is None else {self.name: array[None]}


FORMS: dict[str, dict[str, Any]] = {
    "QOperator": {"quant_format": QuantFormat.QOperator},
    "QOperator, a scale for each column": {"quant_format": QuantFormat.QOperator, "per_channel": True},
    "QDQ": {"quant_format": QuantFormat.QDQ},
}


@pytest.mark.slow
@pytest.mark.parametrize("count", [8, 1])
@pytest.mark.parametrize("form", FORMS)
def test_a_file_calibrated_on_few_images_is_explained_as_the_one_before(form: str, count: int, tmp_path: Path):
    path = tmp_path / "quantised.onnx"
    quantize_static(demo_model(), path, Images(count), weight_type=QuantType.QInt8, **FORMS[form])

    result = run("explain", path, demo_image(), "--method", "gradskip", "--no-cache", "--json", "-o", tmp_path / "out")

    assert result.exit_code == 0, result.output
    proofs = gradskip_onnx.inspect(path).proofs
    assert max(proof.measured for proof in proofs if proof.claim == SATURATED) < 0.05
    before = gradskip_onnx.load(demo_model(), cache=False).explain(demo_image(), method="gradskip")
    (found,) = (np.load(file) for file in (tmp_path / "out").glob("*.npy"))
    assert json.loads(result.stdout)["target"]["index"] == before.target.index
    assert np.corrcoef(found.ravel(), before.map.ravel())[0, 1] > 0.9
