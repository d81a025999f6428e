"""Grad-CAM and Grad-CAM++: channels of the last block's tokens, weighed by their gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.patches import Patches
from gradskip_onnx.methods.table import Cost, Method, method, one_pass
from gradskip_onnx.types import Architecture, Array, Needs, Relevance, Trace, read_only

LAYERS: Mapping[str, str] = {"normed": "normed", "output": "tokens_out"}
LAYER_HELP = "which tokens of the last block: those its attention reads, or its output"
EMPTY_MAP = "every patch spoke against the class, and only what speaks for it is shown: the map is empty"


@dataclass(frozen=True, slots=True)
class CamOptions:
    layer: str = option("normed", LAYER_HELP, choices=tuple(LAYERS))


@dataclass(frozen=True, slots=True)
class CamPlusOptions:
    layer: str = option("normed", LAYER_HELP, choices=tuple(LAYERS))
    eps: float = option(1e-6, "added to the denominator of the pixel weights", low=0.0)


def activation_map(trace: Trace, architecture: Architecture, options: Any, weigh: Callable[..., Array]) -> Relevance:
    """relu(sum_k w_k a_k) on the grid of the last block, with w = weigh(a, G) (d,), tokens a and gradient G (n, d)."""
    last = Patches(trace, architecture.blocks[-1])
    a, G = last.value(LAYERS[options.layer]), last.gradient(LAYERS[options.layer])
    if not G.any():
        raise UnsupportedModelError(
            "zero-gradient",
            f"the score has no gradient at the patches of the last block's {options.layer} tokens; {_advice(options)}",
        )
    cam = a @ weigh(a, G)
    return Relevance(
        read_only(np.maximum(cam, 0).reshape(last.block.grid)),
        checks={"negative_share": float((cam < 0).mean())},
        notes=() if (cam > 0).any() else (EMPTY_MAP,),
    )


def _advice(options: Any) -> str:
    return "try layer=normed" if options.layer == "output" else "try another target"


def mean_gradient(_a: Array, G: Array) -> Array:
    """w_k = mean over the patches of G_k."""
    return np.asarray(G.mean(axis=0))


def grad_cam(trace: Trace, architecture: Architecture, options: CamOptions) -> Relevance:
    return activation_map(trace, architecture, options, mean_gradient)


def grad_cam_plus(trace: Trace, architecture: Architecture, options: CamPlusOptions) -> Relevance:
    """w_k = sum_j relu(G_jk) G_jk^2 / (2 G_jk^2 + G_jk^3 sum_i a_ik + eps); a term with denominator 0 is 0."""

    def weigh(a: Array, G: Array) -> Array:
        denominator = 2 * G**2 + G**3 * a.sum(axis=0) + options.eps
        share = np.divide(G**2, denominator, out=np.zeros_like(G), where=denominator != 0)
        return np.asarray((np.maximum(G, 0) * share).sum(axis=0))

    return activation_map(trace, architecture, options, weigh)


def cam_needs(options: Any, architecture: Architecture) -> Needs:
    """The tokens of the last block that the option `layer` names, and their gradients."""
    tensor = LAYERS[options.layer]
    fields: dict[str, Any] = dict.fromkeys((tensor, f"{tensor}_gradients"), architecture.last_block)
    return Needs(**fields)


def last_block_backward(_options: Any) -> Cost:
    """The cost of one forward pass and a backward pass that ends in the last block."""
    return Cost(1, 1, "the backward pass ends in the last block")


GRAD_CAM = method(
    Method(
        name="grad-cam",
        summary="channels of the last block's tokens, weighed by their mean gradient",
        reference="Selvaraju et al., Grad-CAM: Visual Explanations from Deep Networks, ICCV 2017",
        options=CamOptions,
        needs=cam_needs,
        run=one_pass(grad_cam),
        cost=last_block_backward,
    )
)

GRAD_CAM_PLUS = method(
    Method(
        name="grad-cam++",
        summary="Grad-CAM with higher-order weights for the positive gradients",
        reference="Chattopadhyay et al., Grad-CAM++: Improved Visual Explanations, WACV 2018",
        options=CamPlusOptions,
        needs=cam_needs,
        run=one_pass(grad_cam_plus),
        cost=last_block_backward,
    )
)
