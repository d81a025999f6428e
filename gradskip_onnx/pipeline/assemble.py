"""Puts an explanation together: the scores of a method become a map of the image, with all that is known beside it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from gradskip_onnx.explanation import Explanation
from gradskip_onnx.images import interpolate
from gradskip_onnx.images.classes import rank
from gradskip_onnx.tasks import task_of

from .propagated import Propagated
from .question import Question

if TYPE_CHECKING:
    from .explainer import Explainer

TOP = 5  # classes that are listed with a result


def assemble(explainer: Explainer, done: Propagated, question: Question) -> Explanation:
    """The explanation of one image for one class."""
    architecture, image, trace, relevance = explainer.architecture, done.image, done.trace, done.relevance
    task = task_of(architecture)
    placed = image.geometry.place(interpolate.resize(relevance.scores, architecture.input_dims.size))
    ranked = rank(task, trace.logits, explainer.labels, TOP, trace.target)
    return Explanation(
        map=placed,
        target=next(candidate for candidate in ranked if candidate.index == trace.target),
        top=ranked[:TOP],
        grid=architecture.grid,
        relevance=replace(relevance, checks=dict(relevance.checks)),  # read-only views cannot be pickled
        preprocess=explainer.preprocess,
        geometry=image.geometry,
        original=image.original,
        model=explainer.name,
        model_sha256=explainer.sha256,
        provider=done.session.provider,
        timings={**done.timings, "propagate": time.perf_counter() - done.began},
        task=task.name,
        score=question.score_text,
        region=question.region_text,
        warnings=explainer.warnings + done.session.warnings,
    )
