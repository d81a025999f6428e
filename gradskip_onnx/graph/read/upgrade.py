"""Converts files of an opset older than the rules support, and proves the conversion on a probe image."""

from __future__ import annotations

import onnx
from onnx import version_converter

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.graph.prove.proofs import difference, rounding
from gradskip_onnx.runtime.session import open_session
from gradskip_onnx.surgeon.opsets import OLDEST_OPSET
from gradskip_onnx.types import Proof, Source

from .image_input import ImageInput
from .names import unescaped

ALIASES = ("", "ai.onnx")


def too_old(model: onnx.ModelProto) -> bool:
    """Whether a model must be converted."""
    return _version(model) < OLDEST_OPSET


def upgrade(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Convert a model to the oldest supported opset."""
    version = _version(model)
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer):
        raise _too_old(name, version, "its weights are in a separate file")
    try:
        return version_converter.convert_version(model, OLDEST_OPSET)
    except (RuntimeError, ValueError, onnx.shape_inference.InferenceError) as failure:  # of onnx's C++ converter
        reason = str(failure).strip().splitlines()[0].rpartition("failed: ")[2]  # before it, a line of onnx's source
        raise _too_old(name, version, reason[:120]) from failure


def _version(model: onnx.ModelProto) -> int:
    return next((entry.version for entry in model.opset_import if entry.domain in ALIASES), 0)


def _too_old(name: str, version: int, reason: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        "opset-too-old",
        f"{name} uses opset {version} and cannot be converted to {OLDEST_OPSET} ({reason}); export it again",
    )


def prove_upgrade(source: Source, image: ImageInput, size: tuple[int, int]) -> list[Proof]:
    """Compare the outputs of the converted model with those of the file on disk, on a probe image."""
    if source.before_upgrade is None:
        return []
    feeds = {unescaped(image.name): image.probe(size, image.batch or 1)}
    names = [output.name for output in source.before_upgrade.graph.output]
    before, after = (
        open_session(m, source.folder, "cpu").run(names, feeds) for m in (source.before_upgrade, source.model)
    )
    claim = "a converted file gives what the given one gave"
    return [Proof(claim, name, difference(after[name], before[name]), rounding(before[name].dtype)) for name in names]
