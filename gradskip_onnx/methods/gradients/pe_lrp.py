"""Pe-LRP: relevance of the pixels together with that of the positional embedding."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gradskip_onnx.autodiff.rulesets.choice import Rules
from gradskip_onnx.autodiff.scores.seeds import logit
from gradskip_onnx.errors import UnsupportedModelError
from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.passes import Passes
from gradskip_onnx.methods.patches import Patches
from gradskip_onnx.methods.table import Method, method, one_backward
from gradskip_onnx.methods.windows import cells
from gradskip_onnx.types import Architecture, Array, Needs, Position, Relevance, Trace, read_only

from .value_times_gradient import READ_HELP, READS, at_pixels, entrance

NO_POSITION = "the model adds no positional embedding: this is the method without its positional part (AttnLRP)"


@dataclass(frozen=True, slots=True)
class PeLrpOptions:
    part: str = option(
        "both", "whose relevance is shown: that of the image, of the positional embedding, or both",
        choices=("both", "image", "position"),
    )  # fmt: skip
    gamma_linear: float = option(0.05, "gamma of the head and of MLP layers", low=0.0)
    gamma_conv: float = option(100.0, "gamma of the patch embedding", low=0.0)
    read: str = option("pixels", READ_HELP, choices=tuple(READS))


def pe_lrp(trace: Trace, architecture: Architecture, options: PeLrpOptions, passes: Passes) -> Relevance:
    """relu(sum over the channels of x * g + its patch's share of the position), or the norm of a token's relevance.

    Tokens t = e + P behind the positional embedding P have relevance t * g, of which P * g is that of the position.
    Relevance begins as 1 at the logit; x * g begins as the logit itself, and is divided by it.
    """
    position = architecture.position
    if options.part == "position" and not position:
        raise UnsupportedModelError(
            "no-position", "pe-lrp option part: the model adds no positional embedding to show; use part=image"
        )
    y = _logit(trace, passes)
    found = (_pixels if options.read == "pixels" else _tokens)(trace, architecture, options.part, y)
    checks = {"sum": float(found.sum())}
    if position:
        checks["position_sum"] = float((_of_position(trace, architecture, position) / y).sum())
    return Relevance(read_only(found), checks=checks, notes=() if position else (NO_POSITION,))


def _logit(trace: Trace, passes: Passes) -> float:
    """Of the class; for segmentation its mean over the pixels explained."""
    y = float(np.average(trace.logits[trace.target], weights=passes.pixels()))
    if y == 0:
        raise UnsupportedModelError("zero-score", "the logit of the class is 0: it has no relevance to share")
    return y


def _pixels(trace: Trace, architecture: Architecture, part: str, y: float) -> Array:
    """(H, W): a patch's positional relevance is divided equally among its pixels."""
    height, width = architecture.input_dims.size
    found = np.zeros((height, width)) if part == "position" else at_pixels(trace, architecture)
    if part != "image" and architecture.position:
        of_patch = _of_position(trace, architecture, architecture.position).sum(axis=1)
        each = of_patch * architecture.grid.patches / (height * width)
        found = found + each[cells(architecture.grid, (height, width))].reshape(height, width)
    return np.maximum(found / y, 0)


def _tokens(trace: Trace, architecture: Architecture, part: str, y: float) -> Array:
    """On the grid of the first block: the length of each token's relevance."""
    tokens = Patches(trace, entrance(architecture))
    relevance = tokens.value("tokens_in") * tokens.gradient("tokens_in")
    if part != "both" and architecture.position:
        of_position = _of_position(trace, architecture, architecture.position)
        relevance = of_position if part == "position" else relevance - of_position
    return np.asarray(np.linalg.norm(relevance / y, axis=1).reshape(architecture.grid))


def _of_position(trace: Trace, architecture: Architecture, position: Position) -> Array:
    """P * g of the patches, (n, d)."""
    after = Patches(trace, entrance(architecture))
    before = Patches(trace, replace(after.block, tokens_in=position.before))
    return (after.value("tokens_in") - before.value("tokens_in")) * after.gradient("tokens_in")


def _needs(options: PeLrpOptions, architecture: Architecture) -> Needs:
    return replace(READS[options.read](architecture), position=True)


PE_LRP = method(
    Method(
        name="pe-lrp",
        summary="relevance of the pixels and of the positional embedding",
        reference="Bakish et al., Revisiting LRP: Positional Attribution as the Missing Ingredient, 2025",
        options=PeLrpOptions,
        needs=_needs,
        run=pe_lrp,
        cost=one_backward,
        seed=lambda _: logit,
        rules=lambda options: Rules(
            "pe-lrp", (("gamma_linear", float(options.gamma_linear)), ("gamma_conv", float(options.gamma_conv)))
        ),
    )
)
