"""Extra passes for methods that run the model again on variants of the explained image."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gradskip_onnx.autodiff.rulesets.choice import Rules
from gradskip_onnx.autodiff.scores.seeds import Seed
from gradskip_onnx.errors import ModelError
from gradskip_onnx.instrument.pass_request import PassRequest
from gradskip_onnx.runtime.session import Session
from gradskip_onnx.tasks import Task
from gradskip_onnx.types import Array, Needs, Trace

if TYPE_CHECKING:
    from gradskip_onnx.graph.shorten.shorten import Short

AT_ONCE = 32  # images per forward pass
GRADIENTS_AT_ONCE = 8  # images per pass that returns inner tensors, which take memory


Run = Callable[[Array, Sequence[int | None], Sequence[Array] | None, PassRequest], list[Trace]]
Progress = Callable[[int], None]  # called after each batch with its number of passes
Shorten = Callable[[Trace], "tuple[Short, Session]"]


@dataclass(frozen=True, slots=True, eq=False)
class ExtraPasses:
    """`methods.Passes` for one image; class and explained pixels are those of its `trace`."""

    task: Task
    run: Run
    trace: Trace
    region: Array | None
    request: PassRequest
    shorten: Shorten
    progress: Progress | None = None

    def probabilities(self, images: Array) -> Array:
        return self.task.probability(self._logits(images), self.trace.target, self.pixels())

    def scores(self, images: Array) -> Array:
        return self.task.score(self._logits(images), self.trace.target, self.pixels())

    def traces(
        self, images: Array, needs: Needs | None = None, rules: Rules | None = None, score: Seed | None = None
    ) -> Iterator[Trace]:
        own = self.request
        request = PassRequest(needs or own.needs, score or own.score, rules or own.rules)
        return self._passes(images, request, GRADIENTS_AT_ONCE)

    def pixels(self) -> Array | None:
        return self.task.explained(self.trace.logits, self.trace.target, self.region)

    def without_tokens(self, keep: Array) -> Array:
        """As `Passes.without_tokens`; sequences of the same length share a batch."""
        from gradskip_onnx.graph.shorten.shorten_proof import run_short

        short, session = self.shorten(self.trace)
        tokens = self.trace.values[short.entrance.tokens_in]
        counts = keep.sum(axis=1)
        found = np.zeros(len(keep))
        for count in np.unique(counts):
            (same,) = np.nonzero(counts == count)
            for start in range(0, len(same), AT_ONCE):
                part = same[start : start + AT_ONCE]
                logits = run_short(session, short, np.stack([tokens[short.rows(row)] for row in keep[part]]))
                if not np.isfinite(logits).all():
                    raise ModelError(f"with {count} patches left the model's scores are not finite numbers")
                found[part] = self.task.probability(logits, self.trace.target, self.pixels())
                self._count(len(part))
        return found

    def _logits(self, images: Array) -> Array:
        forward = PassRequest(Needs())
        return np.stack([trace.logits for trace in self._passes(images, forward, AT_ONCE)])

    def _passes(self, images: Array, request: PassRequest, step: int) -> Iterator[Trace]:
        pixels = self.pixels()
        for start in range(0, len(images), step):
            part = images[start : start + step]
            regions = None if pixels is None else [pixels] * len(part)
            yield from self.run(part, [self.trace.target] * len(part), regions, request)
            self._count(len(part))

    def _count(self, passes: int) -> None:
        if self.progress is not None:
            self.progress(passes)
