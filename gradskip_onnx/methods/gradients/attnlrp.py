"""AttnLRP: relevance propagated through attention, norms and gates, as in the paper or as in its code for vision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gradskip_onnx.autodiff.rulesets.choice import Rules
from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.table import Method, method, one_backward, one_pass
from gradskip_onnx.types import Architecture, Relevance, Trace, read_only

from .value_times_gradient import READ_HELP, READS, relevance_map

VARIANTS: Mapping[str, str] = {"vit": "attnlrp-vit", "full": "attnlrp"}
OF_VARIANT = -1.0  # value of a gamma option that stands for the default of the variant


@dataclass(frozen=True, slots=True)
class AttnLrpOptions:
    variant: str = option(
        "vit", "vit: attention held constant, gamma rule at layers; full: relevance to queries and keys too",
        choices=tuple(VARIANTS),
    )  # fmt: skip
    gamma_linear: float = option(
        OF_VARIANT, "gamma of the head and of MLP layers; -1: 0.05 for vit, 0 for full", low=OF_VARIANT
    )
    gamma_conv: float = option(OF_VARIANT, "gamma of the patch embedding; -1: 0.25 for vit, 0 for full", low=OF_VARIANT)
    read: str = option("pixels", READ_HELP, choices=tuple(READS))


def attnlrp(trace: Trace, architecture: Architecture, options: AttnLrpOptions) -> Relevance:
    """R = sum over the channels of x * g, signed; g by the rules of the variant."""
    found, notes = relevance_map(trace, architecture, options.read)
    return Relevance(read_only(found), checks={"sum": float(found.sum())}, notes=notes)


def rules(options: AttnLrpOptions) -> Rules:
    """The rule set of the variant, with the gammas that the user set."""
    gammas = (("gamma_linear", options.gamma_linear), ("gamma_conv", options.gamma_conv))
    return Rules(VARIANTS[options.variant], tuple((name, float(value)) for name, value in gammas if value >= 0))


ATTNLRP = method(
    Method(
        name="attnlrp",
        summary="relevance shared through attention, norms and gates down to the pixels",
        reference="Achtibat et al., AttnLRP: Attention-Aware Layer-Wise Relevance Propagation for Transformers, 2024",
        options=AttnLrpOptions,
        needs=lambda options, model: READS[options.read](model),
        run=one_pass(attnlrp),
        cost=one_backward,
        rules=rules,
    )
)
