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
    """Whether what was built in is what is asked for."""
    same = method == _inside(built) and (method.own_score or question.score == built.score)
    return same and not altered(built)


def altered(built: Built) -> str:
    """How the map of a file differs from the scores of its method; empty: not at all.

    What is drawn and measured follows from scores with their sign and their sum.
    """
    return " and ".join(word for word in ("smoothed", "normalised") if getattr(built, word))


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
    rows, found = _rows(images, max(built.top, 1)), []
    first = [row[0] for row in rows]
    values = np.stack([images[at].values for at in first]).astype(model.image.dtype)
    weights = None if regions is None else [regions[at] for at in first]
    size = model.image.dims[0] or (1 if built.large else None)
    fed = model.architecture.input if built.preprocessing == "inside" else str(built.inputs["image"])
    for part, asked, pixels in whole_batches(values, rows, weights, size):
        feeds = {fed: as_fed(part, model.architecture.input_layout)}
        feeds[str(built.inputs["target"])] = _classes(asked, targets, built.top)
        if pixels is not None:
            feeds[str(built.inputs["region"])] = np.stack(pixels).astype(np.float32)
        outputs = session.run(names, feeds)
        for row, logits, scores, explained in zip(asked, *(outputs[name] for name in names), strict=True):
            several = zip(scores, explained, strict=True) if built.top else [(scores, explained)]
            found += [(logits, *one) for one, _ in zip(several, row, strict=False)]
    model.require_unchanged()
    timings = {"open": opened - began, "run": (time.perf_counter() - opened) / len(images)}
    for image, (logits, scores, explained) in zip(images, found, strict=False):
        if not (np.isfinite(logits).all() and np.isfinite(scores).all()):
            raise ModelError("the scores of the model or its map are not finite numbers for this image")
        trace = Trace(read_only(image.values), read_only(logits.astype(np.float32)), int(explained), {}, {})
        checks = {"sum": float(scores.sum(dtype=np.float64))}
        relevance = Relevance(read_only(scores), method.row.name, method.settings, checks, notes=(NOTE,))
        yield Propagated(image, trace, relevance, session, time.perf_counter(), timings)


def _rows(images: Sequence[Prepared], most: int) -> list[list[int]]:
    """Places in `images` that one row of a run answers: those of one image, at most as many as the file has classes."""
    rows: list[list[int]] = []
    for at, image in enumerate(images):
        if rows and len(rows[-1]) < most and images[rows[-1][0]] is image:
            rows[-1].append(at)
        else:
            rows.append([at])
    return rows


def _classes(rows: Sequence[Sequence[int]], targets: Sequence[int | None], top: int) -> Array:
    """The classes of some rows, (B,) or (B, K); a row that asks for fewer than K ends with its last one again."""
    asked = [[AUTOMATIC if (target := targets[at]) is None else target for at in row] for row in rows]
    if not top:
        return np.array([row[0] for row in asked], np.int64)
    return np.array([row + row[-1:] * (top - len(row)) for row in asked], np.int64)
