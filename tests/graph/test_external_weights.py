"""Weights in other files than the model's: what is odd about where they lie is said in one line."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.support.command_line import fails, run
from tests.support.models import vit


@pytest.mark.parametrize("value", ["text", "-1", "9" * 30, "9" * 5000, "1e3", "٣", ""])
@pytest.mark.parametrize("key", ["offset", "length"])
def test_external_data_with_odd_numbers(key: str, value: str, tmp_path: Path):
    path = tmp_path / "model.onnx"
    onnx.save_model(vit(), path, save_as_external_data=True, location="weights.bin", size_threshold=200)
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            entry.value = value if entry.key == key else entry.value
    path.write_bytes(model.SerializeToString())

    fails(run("inspect", path), 2)
