"""Runs the model and the method on prepared images: what comes before a map is drawn at the size of its image."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gradskip_onnx.autodiff.scores.seeds import named_seed
from gradskip_onnx.passes.extra_passes import ExtraPasses, Progress
from gradskip_onnx.tasks import task_of

from .built_in import answers, run_built
from .inputs import Prepared
from .propagated import Propagated
from .question import Question

if TYPE_CHECKING:
    from .explainer import Explainer


def relevances(
    explainer: Explainer, images: Sequence[Prepared], targets: Sequence[int | None], question: Question,
    progress: Progress | None = None,
) -> Iterator[Propagated]:  # fmt: skip
    """Plan, run, propagate: each image for its own target, or one image for each of several targets, in one pass."""
    method = explainer.settled(question.method)
    method.check(explainer.architecture)
    named_seed(question.score)  # raises for an unknown name, also where the method has its own score
    shown = [*images] * (len(targets) // len(images))  # the image of each target
    regions = question.weights(explainer.model, [image.geometry for image in shown])
    built = explainer.model.facts.metadata.built
    if built is not None and answers(built, method, question):
        yield from run_built(explainer.model, built, method, shown, targets, regions)
        return
    request = method.request(explainer.architecture, question.score)
    values = np.stack([image.values for image in images])
    traces, session, timings = explainer._run(values, targets, regions, request)
    task = task_of(explainer.architecture)
    for at, (trace, image) in enumerate(zip(traces, shown, strict=True)):
        began = time.perf_counter()
        pixels = None if regions is None else regions[at]
        passes = ExtraPasses(task, explainer._rerun, trace, pixels, request, explainer.model.shorten, progress)
        yield Propagated(image, trace, method.run(trace, explainer.architecture, passes), session, began, timings)
