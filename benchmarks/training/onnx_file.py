"""A trained model as a plain ONNX file that says how images are prepared for it and what its classes are called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from gradskip_onnx.exporters.trace import trace
from torch import nn

from gradskip_onnx.images.preprocess import Preprocess, Triple
from gradskip_onnx.selfcontained.describe import annotate
from gradskip_onnx.types import Size

OPSET = 17
TOLERANCE = 1e-4  # absolute, on logits of order ten: float32 rounding through some hundred operators


def preparation(side: int, mean: Triple, std: Triple) -> Preprocess:
    """Whole images, stretched to `side` by `side` pixels where they are of another size."""
    return Preprocess(
        size=(side, side), crop=1.0, mean=mean, std=std, interpolation="bilinear", resize="stretch", source="metadata"
    )


def write(model: nn.Module, path: Path, labels: tuple[str, ...], preprocess: Preprocess) -> None:
    """Forward graph only, dynamic batch; the file is compared with the module before it counts."""
    exported = trace(model, torch.zeros(1, 3, *preprocess.size), opset=OPSET)
    annotate(exported, preprocess=preprocess, labels=labels)
    onnx.checker.check_model(exported, full_check=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(exported, path)
    difference = compare(model, path, preprocess.size)
    if not difference < TOLERANCE:
        raise ValueError(f"{path}: logits differ from the module's by {difference:.2e}, more than {TOLERANCE:.0e}")


def compare(model: nn.Module, path: Path, size: Size) -> float:
    """Largest difference of logits on random images, file against module."""
    images = torch.randn(3, 3, *size, generator=torch.Generator().manual_seed(0))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (got,) = session.run(["logits"], {"pixel_values": images.numpy()})
    with torch.no_grad():
        return float(np.abs(got - model(images).numpy()).max())
