"""One model, one map: a tiny vision transformer whose norms and activations are written in several ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

import gradskip_onnx
from gradskip_onnx.types import Array
from tests.support import models
from tests.support.models import Vit, Writer, vit

OPSET = 20
CLOSE = 1e-4  # of the largest value: float32 through a forward and a backward pass; a gate not held is off by tenths
METHODS = ("gradskip+", "pe-lrp", "attnlrp", "ah+ln", "chefer1", "grad-cam")
IMAGE = np.random.default_rng(3).normal(size=(1, 3, 32, 32)).astype(np.float32)


class Operators(Writer):
    """Norms and GELU as operators."""

    def norm(self, x: str, width: int, decomposed: bool) -> str:  # noqa: ARG002
        return super().norm(x, width, decomposed=False)

    def gelu(self, x: str, tanh: bool) -> str:
        return self.op("Gelu", x, approximate="tanh" if tanh else "none")


class WrittenOut(Writer):
    """Norms by a power of the variance; GELU by the rules of the support file, in pieces."""

    def norm(self, x: str, width: int, decomposed: bool) -> str:  # noqa: ARG002
        gain, bias = self.const(1 + 0.1 * self.rng.standard_normal(width), np.float32), self.weight(width)
        centred = self.op("Sub", x, self.op("ReduceMean", x, self.ints(-1)))
        variance = self.op("ReduceMean", self.op("Mul", centred, centred), self.ints(-1))
        shifted = self.op("Add", variance, self.const(1e-6, np.float32))
        spread = self.op("Pow", shifted, self.const(-0.5, np.float32))
        return self.op("Add", self.op("Mul", self.op("Mul", centred, spread), gain), bias)


class TurnedRound(WrittenOut):
    """As before, with -mean(x) + x for the difference, and the factors the other way round."""

    def norm(self, x: str, width: int, decomposed: bool) -> str:  # noqa: ARG002
        gain, bias = self.const(1 + 0.1 * self.rng.standard_normal(width), np.float32), self.weight(width)
        centred = self.op("Add", self.op("Neg", self.op("ReduceMean", x, self.ints(-1))), x)
        variance = self.op("ReduceMean", self.op("Pow", centred, self.const(2, np.float32)), self.ints(-1))
        spread = self.op("Reciprocal", self.op("Sqrt", self.op("Add", self.const(1e-6, np.float32), variance)))
        return self.op("Add", bias, self.op("Mul", gain, self.op("Mul", spread, centred)))


class HardSwish(Operators):
    """The activation of mobile models in place of GELU."""

    def gelu(self, x: str, tanh: bool) -> str:  # noqa: ARG002
        return self.op("HardSwish", x)


class HardSwishByGate(WrittenOut):
    def gelu(self, x: str, tanh: bool) -> str:  # noqa: ARG002
        return self.op("Mul", x, self.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))


class HardSwishByClip(WrittenOut):
    def gelu(self, x: str, tanh: bool) -> str:  # noqa: ARG002
        three, low, high, six = (self.const(number, np.float32) for number in (3.0, 0.0, 6.0, 6.0))
        return self.op("Div", self.op("Mul", x, self.op("Clip", self.op("Add", x, three), low, high)), six)


def as_it_is(file: bytes, _: Path) -> bytes:
    return file


def fused(file: bytes, folder: Path) -> bytes:
    """As ONNX Runtime's optimiser writes it, with operators of its own."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "fused.onnx")
    ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    written = (folder / "fused.onnx").read_bytes()
    assert b"com.microsoft" in written
    return written


Change = Callable[[bytes, Path], bytes]
FAMILIES: dict[str, tuple[type[Writer], dict[str, tuple[type[Writer], Change]], Vit]] = {
    "GELU": (
        Operators,
        {
            "written out": (WrittenOut, as_it_is),
            "turned round": (TurnedRound, as_it_is),
            "written out, then fused": (WrittenOut, fused),
            "operators fused": (Operators, fused),
            "as torch exports it": (Writer, as_it_is),
            "as torch exports it, then fused": (Writer, fused),
        },
        Vit(opset=OPSET),
    ),
    "tanh GELU": (Operators, {"written out": (WrittenOut, as_it_is)}, Vit(opset=OPSET, tanh_gelu=True)),
    "HardSwish": (
        HardSwish,
        {"times HardSigmoid": (HardSwishByGate, as_it_is), "times Clip": (HardSwishByClip, as_it_is)},
        Vit(opset=OPSET),
    ),
}
CASES = [
    pytest.param(first, *other, shape, id=f"{family}: {name}")
    for family, (first, others, shape) in FAMILIES.items()
    for name, other in others.items()
]


@pytest.mark.parametrize(("first", "writer", "change", "shape"), CASES)
def test_one_model_has_one_map(
    first: type[Writer], writer: type[Writer], change: Change, shape: Vit,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def maps(writing: type[Writer], changed: Change) -> dict[str, Array]:
        monkeypatch.setattr(models, "Writer", writing)
        explainer = gradskip_onnx.load(changed(vit(shape).SerializeToString(), tmp_path), threads=1)
        return {name: explainer.explain(IMAGE, 2, method=name)[0].map for name in METHODS}

    expected, found = maps(first, as_it_is), maps(writer, change)
    for name in METHODS:
        assert np.ptp(expected[name]) > 0
        assert np.abs(found[name] - expected[name]).max() < CLOSE * np.abs(expected[name]).max(), name
