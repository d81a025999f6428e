"""Runs a plan on images and returns one `Trace` per image, arrays in canonical axis order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from gradskip_onnx.errors import ModelError
from gradskip_onnx.graph.layouts import arrange, as_fed
from gradskip_onnx.runtime.session import Session
from gradskip_onnx.tasks import Task, task_of
from gradskip_onnx.types import AUTOMATIC, Architecture, Array, Plan, Trace, read_only

from .made_arrays import MadeArrays, make

Asked = TypeVar("Asked")  # what is asked about an image: a class, or several


def run_plan(
    session: Session,
    plan: Plan,
    architecture: Architecture,
    images: Array,
    targets: Sequence[int | None] | None = None,
    regions: Sequence[Array | None] | None = None,
) -> list[Trace]:
    """Run a batch (B, channels, H, W); a target of None is the predicted class, a region of None its pixels.

    One image with several targets is run forward once: the traces share its values, and every gradient has a row for
    each target. `class_sharing` decides whether a graph can do that.
    """
    batch = len(images)
    rows = len(targets or images)
    feeds = {architecture.input: as_fed(images, architecture.input_layout)}
    if plan.target_input is not None:
        chosen = [AUTOMATIC if target is None else target for target in targets or [None] * batch]
        feeds[plan.target_input] = np.array(chosen, np.int64)
    if plan.region_input is not None and regions is not None:
        size = next((region.shape for region in regions if region is not None), (1, 1))
        empty = np.full(size, AUTOMATIC, np.float32)
        feeds[plan.region_input] = np.stack([empty if region is None else region for region in regions])
    outputs = session.run(output_names(plan), feeds)
    logits = outputs[plan.logits].astype(np.float32, copy=False)
    if not np.isfinite(logits).all():
        raise ModelError("the model's scores for this image are not finite numbers; its weights or input are unsound")
    explained = outputs[plan.target_output] if plan.target_output else _chosen(task_of(architecture), targets, logits)
    shown = _Shown(plan, session, outputs, _layouts(architecture))
    values = [shown.of_image(plan.values, i, batch) for i in range(batch)]
    image_of_row = range(rows) if rows == batch else [0] * rows
    return [
        Trace(
            input=read_only(images[i]),
            logits=read_only(logits[i]),
            target=int(explained[row]),
            values=values[i],
            gradients=shown.of_image(plan.gradients, row, rows),
            readouts=shown.of_image(plan.readouts, row, rows),
            relevances=shown.of_image(plan.relevances, row, rows),
            unsigned=shown.of_image(plan.unsigned, row, rows),
        )
        for row, i in enumerate(image_of_row)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Shown:
    """The outputs of one run, and what makes those that the plan leaves out."""

    plan: Plan
    session: Session
    outputs: Mapping[str, Array]
    layouts: Mapping[str, str]

    def of_image(self, names: Mapping[str, str], i: int, batch: int) -> Mapping[str, Array]:
        """The tensors `names` of one of the images, or of one of the rows, axes in canonical order."""
        whole = {name: (output, self.layouts[name]) for name, output in names.items()}
        makers = self.plan.makers
        return MadeArrays(
            {
                name: arrange(self.outputs[o], layout, batch)[i]
                for name, (o, layout) in whole.items()
                if o not in makers
            },
            {name: partial(self._make, o, layout, i, batch) for name, (o, layout) in whole.items() if o in makers},
        )

    def _make(self, output: str, layout: str, i: int, batch: int) -> Array:
        made = make(self.plan.makers[output], output, self.outputs, self.session)
        return np.asarray(arrange(made, layout, batch)[i])


def output_names(plan: Plan) -> list[str]:
    """The outputs of the model that a plan reads, each once."""
    shown = (plan.values, plan.gradients, plan.readouts, plan.relevances, plan.unsigned)
    names = [plan.logits, *(output for part in shown for output in part.values() if output not in plan.makers)]
    names += [name for maker in plan.makers.values() for name in maker.inputs]
    return list(dict.fromkeys([*names, *([plan.target_output] if plan.target_output else [])]))


def _chosen(task: Task, targets: Sequence[int | None] | None, scores: Array) -> list[int]:
    """The target classes of a plan without gradients, whose graph does not choose them; -1, -2, ... count by rank."""
    numbers = [AUTOMATIC if target is None else target for target in targets or [None] * len(scores)]
    order = np.argsort(-task.ranked(scores), axis=1, kind="stable")
    rows = np.broadcast_to(order, (len(numbers), order.shape[1]))
    return [target if target >= 0 else int(row[-1 - target]) for target, row in zip(numbers, rows, strict=True)]


def _layouts(architecture: Architecture) -> dict[str, str]:
    """Layouts of the image, the tokens around the positional embedding and the tensors of every block."""
    layouts: dict[str, str] = {architecture.input: architecture.input_layout}
    if architecture.position:
        layouts |= dict.fromkeys(
            (architecture.position.before, architecture.position.after), architecture.position.layout
        )
    for block in architecture.blocks:
        layouts[block.attention] = block.attention_layout
        layouts |= dict.fromkeys((block.tokens_in, block.branch, block.normed), block.tokens_layout)
        layouts[block.tokens_out] = block.output_layout
    return layouts


def whole_batches(
    images: Array, targets: Sequence[Asked], regions: Sequence[Array] | None, size: int | None
) -> Iterator[tuple[Array, list[Asked], list[Array] | None]]:
    """Batches of images, targets and regions, of `size` if it is given; the last is filled up with its last image."""
    step = size or len(images)
    for start in range(0, len(images), step):
        here = [min(start + at, len(images) - 1) for at in range(step)]
        yield images[here], [targets[at] for at in here], None if regions is None else [regions[at] for at in here]
