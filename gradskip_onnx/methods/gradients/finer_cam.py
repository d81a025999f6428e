"""Finer-CAM: Grad-CAM of what sets a class apart from the classes most like it."""

from __future__ import annotations

from dataclasses import dataclass

from gradskip_onnx.autodiff.scores.finer_cam import FinerSeed
from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.table import Method, method, one_pass
from gradskip_onnx.types import Architecture, Relevance, Trace

from .cams import LAYER_HELP, LAYERS, activation_map, cam_needs, last_block_backward, mean_gradient


@dataclass(frozen=True, slots=True)
class FinerCamOptions:
    layer: str = option("normed", LAYER_HELP, choices=tuple(LAYERS))
    alpha: float = option(1.0, "how much of the other classes is subtracted; 0: plain Grad-CAM", low=0.0)
    references: int = option(3, "how many of the nearest classes to compare with", low=1)


def finer_cam(trace: Trace, architecture: Architecture, options: FinerCamOptions) -> Relevance:
    return activation_map(trace, architecture, options, mean_gradient)


def refuses(architecture: Architecture) -> str:
    return "it has one class, and there is none to compare it with" if architecture.classes < 2 else ""


FINER_CAM = method(
    Method(
        name="finer-cam",
        summary="Grad-CAM of what sets a class apart from those most like it",
        reference="Zhang et al., Finer-CAM: Spotting the Difference, CVPR 2025",
        options=FinerCamOptions,
        needs=cam_needs,
        run=one_pass(finer_cam),
        cost=last_block_backward,
        seed=lambda options: FinerSeed(float(options.alpha), options.references),
        refuses=refuses,
    )
)
