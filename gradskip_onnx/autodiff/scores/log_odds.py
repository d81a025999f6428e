"""The score of gradskip+: how much a class stands above all others together, not how large its logit is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .seeds import explained, logit, one_hot

if TYPE_CHECKING:
    from gradskip_onnx.autodiff.emit import Emit, Sym


@dataclass(frozen=True, slots=True)
class LogOdds:
    """z_c - share log sum_(k != c) exp z_k: 1 at the class, minus a share of the softmax of the others elsewhere.

    With share 1 it is log p_c / (1 - p_c), which has the direction of the probability's gradient without its factor
    p_c (1 - p_c), which vanishes for a class that is certain. Of segmentation, and of a model with a single score, the
    logit is taken.
    """

    share: float = 1.0

    def __call__(self, emit: Emit, logits: Sym, target: Sym, region: Sym | None = None) -> tuple[Sym, Sym]:
        share, chosen = explained(logits, target, region)
        if share is not None or logits.dims[1] == 1:
            return logit(emit, logits, target, region)
        hot = one_hot(chosen, logits)
        rest = (hot > 0).where(emit.const(-np.inf, logits.dtype), logits)
        return hot - self.share * emit.op("Softmax", rest, dims=logits.dims, axis=1), chosen
