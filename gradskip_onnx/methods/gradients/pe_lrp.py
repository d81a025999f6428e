"""Pe-LRP: relevance of the pixels plus relevance of the positional embedding."""

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
    """At pixels: relu of x * g summed over the channels plus the pixel's share of P * g. At tokens: the norm of t * g.

    Tokens t = e + P after the positional embedding P have relevance t * g, and P * g of it belongs to the position.
    The paper starts from relevance 1 at the logit, but x * g starts from the logit y, so all relevance is divided by y.
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
        checks["position_sum"] = float((_position_relevance(trace, architecture, position) / y).sum())
    return Relevance(read_only(found), checks=checks, notes=() if position else (NO_POSITION,))


def _logit(trace: Trace, passes: Passes) -> float:
    """The logit of the class; for segmentation its mean over the explained pixels. Raises if it is 0."""
    y = float(np.average(trace.logits[trace.target], weights=passes.pixels()))
    if y == 0:
        raise UnsupportedModelError("zero-score", "the logit of the class is 0: it has no relevance to share")
    return y


def _pixels(trace: Trace, architecture: Architecture, part: str, y: float) -> Array:
    """Relevance at the pixels, (H, W); the positional relevance of a patch is divided equally among its pixels."""
    height, width = architecture.input_dims.size
    found = np.zeros((height, width)) if part == "position" else at_pixels(trace, architecture)
    if part != "image" and architecture.position:
        of_patch = _position_relevance(trace, architecture, architecture.position).sum(axis=1)
        per_pixel = of_patch * architecture.grid.patches / (height * width)
        found = found + per_pixel[cells(architecture.grid, (height, width))].reshape(height, width)
    return np.maximum(found / y, 0)


def _tokens(trace: Trace, architecture: Architecture, part: str, y: float) -> Array:
    """The Euclidean norm of each patch's relevance, on the grid of the first block."""
    tokens = Patches(trace, entrance(architecture))
    relevance = tokens.value("tokens_in") * tokens.gradient("tokens_in")
    if part != "both" and architecture.position:
        of_position = _position_relevance(trace, architecture, architecture.position)
        relevance = of_position if part == "position" else relevance - of_position
    return np.asarray(np.linalg.norm(relevance / y, axis=1).reshape(architecture.grid))


def _position_relevance(trace: Trace, architecture: Architecture, position: Position) -> Array:
    """P * g at the patches, (n, d); P is the difference of the tokens after and before the positional embedding."""
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
