"""The score of gradskip+: the log-odds of a class against all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .seeds import explained, logit, one_hot

if TYPE_CHECKING:
    from gradskip_onnx.autodiff.emit import Emit, Sym


@dataclass(frozen=True, slots=True)
class LogOdds:
    """z_c - share log sum_(k != c) exp z_k; its gradient is 1 at c and -share softmax(others) elsewhere.

    With share 1 this is log p_c / (1 - p_c). Its gradient has the direction of that of p_c, but not the factor
    p_c (1 - p_c), which vanishes for a class that is certain. For segmentation, and for a model with a single score,
    the score is the logit.
    """

    share: float = 1.0

    def __call__(self, emit: Emit, logits: Sym, target: Sym, region: Sym | None = None) -> tuple[Sym, Sym]:
        share, chosen = explained(logits, target, region)
        if share is not None or logits.dims[1] == 1:
            return logit(emit, logits, target, region)
        hot = one_hot(chosen, logits)
        rest = (hot > 0).where(emit.const(-np.inf, logits.dtype), logits)
        return hot - self.share * emit.op("Softmax", rest, dims=logits.dims, axis=1), chosen
