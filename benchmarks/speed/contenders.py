"""What is timed side by side for one model and one batch size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gradskip_onnx import api, runtime
from gradskip_onnx.methods import METHODS
from gradskip_onnx.repeats import Request
from gradskip_onnx.types import Array

from .cases import Case
from .measure import Contender

PLAIN, GRAPH, WHOLE, TORCH, CAM = (
    "ONNX Runtime, forward", "ours, gradient graph", "ours, explanation", "PyTorch, explanation", "grad-cam, Grad-CAM",
)  # fmt: skip


def contenders(case: Case, file: Path, batch: int, threads: int) -> tuple[dict[str, Contender], float]:
    """The calls by name, and the largest difference of our maps from PyTorch's, of their maximum."""
    explainer = api.load(file, "cpu", threads=threads)
    dims = explainer.architecture.input_dims
    images = np.random.default_rng(0).standard_normal((batch, *dims)).astype(np.float32)
    found: dict[str, Any] = {**_ours(explainer, file, images, threads), **_torch(case, explainer, images, threads)}
    ours, theirs = (
        np.stack([np.asarray(each) for each in maps]) for maps in (_maps(explainer, images), found[TORCH]())
    )
    return found, float(np.abs(ours - theirs).max() / theirs.max())


def _maps(explainer: api.Explainer, images: Array) -> list[Array]:
    return [explanation.map for explanation in explainer.explain(images, method="gradskip")]


def _ours(explainer: api.Explainer, file: Path, images: Array, threads: int) -> dict[str, Contender]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    plain = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    row = METHODS["gradskip"]
    settings = row.options()
    plan, session = explainer._open(Request(row.needs(settings), "logit", row.rules(settings)))
    return {
        PLAIN: lambda: plain.run(None, {plain.get_inputs()[0].name: images}),
        GRAPH: lambda: runtime.run(session, plan, explainer.architecture, images),
        WHOLE: lambda: explainer.explain(images, method="gradskip"),
    }


def _torch(case: Case, explainer: api.Explainer, images: Array, threads: int) -> dict[str, Any]:
    import torch
    from gradskip_onnx.exporters import load

    from .torch_gradskip import TorchGradSkip

    torch.set_num_threads(threads)
    model = load(case.request)
    pixels = torch.from_numpy(images)
    explain = TorchGradSkip(model.module, model.blocks, explainer.architecture)
    found: dict[str, Any] = {TORCH: lambda: explain(pixels)}
    if explainer.architecture.task == "classification":
        found[CAM] = _grad_cam(model, explainer, pixels)
    return found


def _grad_cam(model: Any, explainer: api.Explainer, pixels: Any) -> Any:
    from pytorch_grad_cam import GradCAM

    last = explainer.architecture.blocks[-1]

    def reshape(tokens: Any) -> Any:
        patches = tokens[:, len(last.special) :]
        return patches.reshape(len(patches), *last.grid, -1).permute(0, 3, 1, 2)

    cam = GradCAM(model=model.module, target_layers=[model.blocks[-1].norm1], reshape_transform=reshape)
    return lambda: cam(input_tensor=pixels, targets=None)
