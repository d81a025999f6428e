"""What a pass through the model is to show; also the key under which its graph is cached."""

from __future__ import annotations

from dataclasses import dataclass

from gradskip_onnx.autodiff.rulesets.choice import TRUE_GRADIENT, Rules
from gradskip_onnx.autodiff.scores.seeds import Seed
from gradskip_onnx.types import Needs


@dataclass(frozen=True, slots=True)
class PassRequest:
    """What a pass is to show, of which score, differentiated by which rules."""

    needs: Needs
    score: str | Seed = "logit"
    rules: Rules = TRUE_GRADIENT
