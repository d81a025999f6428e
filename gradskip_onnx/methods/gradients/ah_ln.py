"""AH+LN: value times gradient, with attention weights and the deviations of the norms held constant."""

from __future__ import annotations

from dataclasses import dataclass

from gradskip_onnx.autodiff.rulesets.choice import Rules
from gradskip_onnx.methods.options import option
from gradskip_onnx.methods.table import Method, method, one_backward, one_pass
from gradskip_onnx.types import Architecture, Relevance, Trace, read_only

from .value_times_gradient import READ_HELP, READS, relevance_map


@dataclass(frozen=True, slots=True)
class AhLnOptions:
    read: str = option("tokens", READ_HELP, choices=tuple(READS))
    mean: bool = option(False, "hold the mean that a normalisation subtracts constant as well")
    gates: bool = option(False, "hold the gate F of GELU = x F(x) constant as well")


def ah_ln(trace: Trace, architecture: Architecture, options: AhLnOptions) -> Relevance:
    """R_i = sum over the channels of t_i * g_i; g is the gradient of a model with linear attention and norms."""
    found, notes = relevance_map(trace, architecture, options.read)
    return Relevance(read_only(found), checks={"sum": float(found.sum())}, notes=notes)


AH_LN = method(
    Method(
        name="ah+ln",
        summary="tokens times their gradient, attention and spreads of norms held constant",
        reference="Ali et al., XAI for Transformers: Better Explanations through Conservative Propagation, ICML 2022",
        options=AhLnOptions,
        needs=lambda options, model: READS[options.read](model),
        run=one_pass(ah_ln),
        cost=one_backward,
        rules=lambda options: Rules("ah+ln", (("mean", float(options.mean)), ("gates", float(options.gates)))),
    )
)
