"""Files built from models in less precision: quantised files of three forms, and float16 with either kind of inputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

import gradskip_onnx
from gradskip_onnx.demo import demo_model
from gradskip_onnx.demo.scenes import scene
from gradskip_onnx.methods import choose_method
from gradskip_onnx.selfcontained.method_file import BuildSettings
from gradskip_onnx.types import Array
from tests.support.built_files import build_into, domains, run, session_of

pytestmark = pytest.mark.slow

KINDS = ("dynamic", "QDQ", "QOperator", "float16", "float16 inside")
# Of the largest value: a dynamic scale flips numbers of 8 bits where a sum is rounded otherwise; float16 has 11 bits.
BOUNDS = {"dynamic": 1e-2, "QDQ": 1e-5, "QOperator": 1e-5, "float16": 2e-3, "float16 inside": 2e-3}


def images(count: int) -> Array:
    """Scenes as the demo model takes them."""
    how = gradskip_onnx.load(demo_model(), cache=False).preprocess
    values = np.stack([scene(seed).image for seed in range(count)]) / 255.0
    return np.asarray(((values - how.mean) / how.std).transpose(0, 3, 1, 2), dtype=np.float32)


class Images(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, name: str) -> None:
        self.feeds: Iterator[dict[str, Array]] = iter([{name: image[None]} for image in images(8)])

    def get_next(self) -> dict[str, Array] | None:
        return next(self.feeds, None)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    folder, plain = tmp_path_factory.mktemp("sources"), onnx.load(demo_model())
    found = {kind: folder / f"{kind}.onnx" for kind in KINDS}
    weights: dict[str, Any] = {"weight_type": QuantType.QInt8, "reduce_range": True}
    calibrated = weights | {"activation_type": QuantType.QUInt8}  # has integer kernels in any session
    quantize_dynamic(demo_model(), found["dynamic"], **weights)
    for kind in ("QDQ", "QOperator"):
        reader = Images(plain.graph.input[0].name)
        quantize_static(demo_model(), found[kind], reader, quant_format=QuantFormat[kind], **calibrated)
    for kind in ("float16", "float16 inside"):
        onnx.save(convert_float_to_float16(onnx.load(demo_model()), keep_io_types="inside" in kind), found[kind])
    return found


@pytest.mark.parametrize("kind", ["dynamic", "QDQ", "QOperator"])
def test_several_classes_of_a_quantised_file(kind: str, files: dict[str, Path], tmp_path: Path):
    """A loop in a body: what it reads of the integers is its own."""
    explainer = gradskip_onnx.load(files[kind], "cpu", threads=1, cache=False)
    one, several = (
        session_of(build_into(tmp_path, explainer, BuildSettings(choose_method("rollout"), top=count, switch=switch)))
        for count, switch in ((0, False), (2, True))
    )
    image = images(1)
    found, expected = run(several, image), [run(one, image, target=np.array([rank])) for rank in (-1, -2)]
    for at, single in enumerate(expected):
        assert found["explained"][0, at] == single["explained"][0]
        largest = np.abs(single["relevance"][0]).max()
        assert np.abs(found["relevance"][0, at] - single["relevance"][0]).max() <= BOUNDS[kind] * largest


@pytest.mark.parametrize("method", ["gradskip+", "gradskip", "rollout"])
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_and_map_are_those_of_the_source(kind: str, method: str, files: dict[str, Path], tmp_path: Path):
    """Logits as ONNX Runtime gives them for the source, the map as `explain` does."""
    explainer = gradskip_onnx.load(files[kind], "cpu", threads=1, cache=False)
    path = build_into(tmp_path, explainer, BuildSettings(choose_method(method)))
    onnx.checker.check_model(str(path), full_check=True)
    built, source = onnx.load(path), onnx.load(files[kind])
    own = onnxruntime.InferenceSession(str(files[kind]), providers=["CPUExecutionProvider"])
    shown = images(3)
    for image in shown:  # one at a time: dynamic quantisation takes its scales from the whole batch
        (expected,) = explainer.explain(image[None], method=method)
        fed = image[None].astype(explainer.model.image.dtype)
        found = run(session_of(path), fed)
        (logits,) = own.run([explainer.architecture.logits], {own.get_inputs()[0].name: fed})
        assert found["explained"] == expected.target.index
        assert found["relevance"].dtype == np.float32
        assert np.abs(found[explainer.architecture.logits] - logits).max() <= BOUNDS[kind] * np.abs(logits).max()
        assert np.abs(found["relevance"][0] - expected.map).max() <= BOUNDS[kind] * np.abs(expected.map).max()
    assert domains(built.graph) == {""}
    versions = {entry.domain: entry.version for entry in source.opset_import}
    assert [entry.version for entry in built.opset_import] == [versions[""]]
    assert path.stat().st_size < files[kind].stat().st_size + 250_000  # graphs; there are no weights among them
