"""Grad-CAM as operators."""

from __future__ import annotations

from gradskip_onnx.autodiff.sym import Sym
from gradskip_onnx.methods.gradients.cams import LAYERS, CamOptions

from .table import propagation
from .traced import Traced


@propagation("grad-cam")
def grad_cam(traced: Traced, options: CamOptions) -> Sym:
    """relu(sum_k w_k a_k) on the grid of the last block, w_k the mean over the patches of G_k."""
    last = traced.architecture.blocks[-1]
    a, G = (read(last, LAYERS[options.layer]) for read in (traced.tokens, traced.gradient))
    cam = a @ G.mean([1]).mT
    return cam.apply("Max", 0).reshape((cam.dims[0], *last.grid))
