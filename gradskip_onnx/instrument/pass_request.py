"""What a pass through the model outputs; also the key under which its graph is cached."""

from __future__ import annotations

from dataclasses import dataclass

from gradskip_onnx.autodiff.rulesets.choice import TRUE_GRADIENT, Rules
from gradskip_onnx.autodiff.scores.seeds import Seed
from gradskip_onnx.types import Needs


@dataclass(frozen=True, slots=True)
class PassRequest:
    """The tensors and gradients a pass outputs, the score that is differentiated, and by which rules."""

    needs: Needs
    score: str | Seed = "logit"
    rules: Rules = TRUE_GRADIENT
