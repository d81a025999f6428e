"""What a run of the model and the method give for one image and class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gradskip_onnx.runtime.session import Session
from gradskip_onnx.types import Relevance, Trace

from .inputs import Prepared


@dataclass(frozen=True, slots=True, eq=False)
class Propagated:
    """One image and class: the pass through the model, and the scores that the method made of it."""

    image: Prepared
    trace: Trace
    relevance: Relevance
    session: Session
    began: float  # when the method began, in `time.perf_counter`
    timings: Mapping[str, float]  # seconds of the pass
