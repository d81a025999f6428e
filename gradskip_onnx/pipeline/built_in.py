"""Explains by what was built into a file: the file is run as it is, and nothing is added to it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gradskip_onnx.errors import InputError, ModelError
from gradskip_onnx.graph.layouts import as_fed
from gradskip_onnx.methods import MethodChoice, choose_method
from gradskip_onnx.model_file.metadata import Built
from gradskip_onnx.passes.opened_model import OpenedModel
from gradskip_onnx.passes.run_plan import whole_batches
from gradskip_onnx.types import AUTOMATIC, Array, Relevance, Trace, read_only

from .inputs import Prepared
from .propagated import Propagated
from .question import Question

SOURCE = "the file itself"
NOTE = "computed by the file itself, which was built with it"


def as_built(choice: MethodChoice, built: Built | None) -> MethodChoice:
    """The choice with what the user left open as it is in a built file: the method, or its options."""
    inside = None if built is None else _inside(built)
    if inside is None or (choice.asked and choice.row is not inside.row):
        return choice
    given = {name: getattr(choice.options, name) for name in choice.given}
    return replace(choice, row=inside.row, options=replace(inside.options, **given), source=SOURCE)


def _inside(built: Built) -> MethodChoice | None:
    """The method that was built in; None if this version does not know it, or not with these options."""
    try:
        return choose_method(built.method, **built.options)
    except InputError:
        return None


def answers(built: Built, method: MethodChoice, question: Question) -> bool:
    """Whether what was built in is what is asked for, as scores that were neither smoothed nor normalised."""
    plain = not (built.smoothed or built.normalised or built.top) and built.preprocessing == "outside"
    return plain and method == _inside(built) and (method.own_score or question.score == built.score)


def run_built(
    model: OpenedModel, built: Built, method: MethodChoice, images: Sequence[Prepared],
    targets: Sequence[int | None], regions: Sequence[Array] | None,
) -> Iterator[Propagated]:  # fmt: skip
    """Each image for its own target, by the session of the file."""
    began = time.perf_counter()
    session = model.file_session()
    opened = time.perf_counter()
    names = [built.outputs[name] for name in ("logits", "relevance", "explained")]
    if missing := {*names} - session.outputs:
        raise ModelError(
            f"{model.name} says it gives {sorted(missing)[0]!r}, which is none of its outputs; build it anew"
        )
    values, found = np.stack([image.values for image in images]).astype(model.image.dtype), []
    for part, classes, pixels in whole_batches(values, targets, regions, model.image.dims[0]):
        feeds = {str(built.inputs["image"]): as_fed(part, model.architecture.input_layout)}
        chosen = [AUTOMATIC if target is None else target for target in classes]
        feeds[str(built.inputs["target"])] = np.array(chosen, np.int64)
        if pixels is not None:
            feeds[str(built.inputs["region"])] = np.stack(pixels).astype(np.float32)
        outputs = session.run(names, feeds)
        found += list(zip(*(outputs[name] for name in names), strict=True))
    model.require_unchanged()
    timings = {"open": opened - began, "run": (time.perf_counter() - opened) / len(images)}
    for image, (logits, scores, explained) in zip(images, found, strict=False):
        if not (np.isfinite(logits).all() and np.isfinite(scores).all()):
            raise ModelError("the scores of the model or its map are not finite numbers for this image")
        trace = Trace(read_only(image.values), read_only(logits.astype(np.float32)), int(explained), {}, {})
        checks = {"sum": float(scores.sum(dtype=np.float64))}
        relevance = Relevance(read_only(scores), method.row.name, method.settings, checks, notes=(NOTE,))
        yield Propagated(image, trace, relevance, session, time.perf_counter(), timings)
