"""Score-CAM: channels of the last block's tokens, weighed by the score of the image masked by each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradskip_onnx.images.interpolate import matrices
from gradskip_onnx.methods.gradients.cams import EMPTY_MAP, LAYER_HELP, LAYERS
from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.passes import Passes
from gradskip_onnx.methods.patches import Patches
from gradskip_onnx.methods.table import Cost, Method, method
from gradskip_onnx.types import Architecture, Array, Needs, Relevance, Trace, read_only

AT_ONCE = 32  # masked images in memory at a time
FLAT = 1e-8  # added to the range of a mask, as in the reference: a constant channel would divide by 0


@dataclass(frozen=True, slots=True)
class ScoreCamOptions:
    layer: str = option("normed", LAYER_HELP, choices=tuple(LAYERS))
    channels: int = option(0, "take only the channels that vary most, this many; 0: all", low=0)


def score_cam(trace: Trace, architecture: Architecture, options: ScoreCamOptions, passes: Passes) -> Relevance:
    """relu(sum_k w_k a_k), w = softmax over the channels of y(x * mask_k), mask_k = a_k enlarged, scaled to 0 ... 1."""
    last = Patches(trace, architecture.blocks[-1])
    a = last.value(LAYERS[options.layer])
    if options.channels:
        kept = np.argsort(-a.std(axis=0), kind="stable")[: options.channels]
        a = a[:, np.sort(kept)]
    maps = a.T.reshape(-1, *last.block.grid)
    parts = [maps[at : at + AT_ONCE] for at in range(0, len(maps), AT_ONCE)]
    scores = np.concatenate([passes.scores(_masked(trace.input, part)) for part in parts])
    powers = np.exp(scores - scores.max())
    cam = np.tensordot(powers / powers.sum(), maps, axes=1)
    return Relevance(
        read_only(np.maximum(cam, 0)),
        checks={"channels": float(len(maps)), "negative_share": float((cam < 0).mean())},
        notes=() if (cam > 0).any() else (EMPTY_MAP,),
    )


def _masked(image: Array, maps: Array) -> Array:
    """Images (M, channels, H, W): the image times each map (M, rows, columns), enlarged and scaled to 0 ... 1."""
    down, across = matrices(image.shape[1:], maps.shape[1:], "corners")
    large = down @ maps @ across.T
    low, high = (pick(axis=(1, 2), keepdims=True) for pick in (large.min, large.max))
    masks = (large - low) / (high - low + FLAT)
    return np.asarray((masks[:, None] * image).astype(image.dtype))


def score_cam_needs(options: ScoreCamOptions, architecture: Architecture) -> Needs:
    """The tokens of the last block that the option `layer` names."""
    fields: dict[str, Any] = {LAYERS[options.layer]: architecture.last_block}
    return Needs(**fields)


SCORE_CAM = method(
    Method(
        name="score-cam",
        summary="channels of the last block's tokens, weighed by the score of the image seen through each",
        reference="Wang et al., Score-CAM: Score-Weighted Visual Explanations, CVPR workshops 2020",
        options=ScoreCamOptions,
        needs=score_cam_needs,
        run=score_cam,
        cost=lambda options: Cost(
            1 + (options.channels or 192),
            0,
            "" if options.channels else "one for each channel: 192 in ViT-tiny, 768 in ViT-B",
        ),
    )
)
