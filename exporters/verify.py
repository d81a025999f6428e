"""Compares values and gradients of a written file with those of the torch model, on random images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradskip_onnx.graph.layouts import arrange
from gradskip_onnx.graph.read.load import load
from gradskip_onnx.model_file.metadata import read_description
from gradskip_onnx.runtime.session import Session, open_session
from gradskip_onnx.selfcontained.control_flow import SWITCH
from gradskip_onnx.selfcontained.method_file import EXPLAINED, RELEVANCE
from gradskip_onnx.tasks import BY_RANK
from gradskip_onnx.types import Array

from .oracle import Oracle, differentiate
from .request import Exportable

BATCHES = (1, 3)
SEED = 7

# Largest difference allowed, relative to the largest value of the tensor. float32: sums are taken in another order,
# about 1e-6 after a dozen blocks. float16: 11 bits, 5e-4 per operation, which add up over the depth.
BOUNDS = {"float32": 1e-4, "float16": 5e-2}
MEASURED = ("logits", "attention", "output", "gradient")
EXACT = 0.0  # bound of quantities from the same kernels on the same numbers, and of integers


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest difference of one quantity at one place, such as a block."""

    quantity: str
    where: str
    absolute: float
    relative: float
    bound: float

    @property
    def passes(self) -> bool:
        return self.relative <= self.bound  # False for NaN


def verify(path: Path, exportable: Exportable, *, device: str = "cpu") -> tuple[Difference, ...]:
    """Compare the file with its torch model; one entry per quantity and block, the worst over all batches."""
    source = load(path)
    anatomy = (read_description(source) or {}).get("anatomy")
    session = open_session(source.model, source.folder, device)
    random = np.random.default_rng(SEED)
    worst: dict[tuple[str, str], Difference] = {}
    for batch in BATCHES:
        images = random.standard_normal((batch, 3, *exportable.size)).astype(np.float32)
        pairs = _whole(session, anatomy, exportable, images) if anatomy else _plain(session, exportable, images)
        for quantity, where, ours, theirs in pairs:
            bound = BOUNDS[exportable.dtype] if quantity in MEASURED else EXACT
            found = difference(quantity, where, ours, theirs, bound)
            before = worst.get((quantity, where))
            if before is None or not found.relative <= before.relative:
                worst[quantity, where] = found
    return tuple(worst.values())


def verify_map(path: Path, tensors: Path, exportable: Exportable) -> tuple[Difference, ...]:
    """Compare a file with a map with the one that shows tensors, and with the method in NumPy on these."""
    from gradskip_onnx.api import load as open_explainer

    session, explainer = open_session(load(path).model, path.parent, "cpu"), open_explainer(tensors, "cpu", cache=False)
    names = explainer.architecture.logits, RELEVANCE, EXPLAINED
    image = np.random.default_rng(SEED).standard_normal((1, 3, *exportable.size)).astype(np.float32)
    ours = session.run(names, {explainer.architecture.input: image})
    (expected,) = explainer.explain(image)
    bound = BOUNDS[exportable.dtype]
    return (
        difference("logits", "beside the map", ours[names[0]], explainer.predict(image), bound),
        difference("class explained", "beside the map", ours[EXPLAINED], np.array([expected.target.index]), EXACT),
        difference("map", expected.relevance.method, ours[RELEVANCE][0], expected.map, bound),
    )


def difference(quantity: str, where: str, ours: Array, theirs: Array, bound: float) -> Difference:
    """Largest absolute difference, also relative to the largest magnitude of `theirs`."""
    if ours.shape != theirs.shape:
        return Difference(quantity, f"{where}: shape {ours.shape}, torch has {theirs.shape}", np.inf, np.inf, bound)
    absolute = float(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max(initial=0.0))
    scale = float(np.abs(theirs.astype(np.float64)).max(initial=0.0))
    relative = absolute / scale if scale > 0 else (0.0 if absolute == 0 else np.inf)
    return Difference(quantity, where, absolute, relative, bound)


Pair = tuple[str, str, Array, Array]  # quantity, where, ours, torch's


def _plain(session: Session, exportable: Exportable, images: Array) -> Iterator[Pair]:
    (feed,) = (entry.name for entry in session.handle.get_inputs())
    (output,) = (entry.name for entry in session.handle.get_outputs())
    ours = session.run([output], {feed: images})[output]
    yield "logits", "", ours, differentiate(exportable, images, None, None).logits


def _whole(session: Session, anatomy: Mapping[str, Any], exportable: Exportable, images: Array) -> Iterator[Pair]:
    """All quantities of a file with gradients; torch differentiates the class that the file chose."""
    feeds = {anatomy["input"]: images}
    classes = anatomy["classes"]
    if len(images) > 1:  # a single image runs with the default target
        feeds["target"] = np.array([-1, *np.linspace(0, classes - 1, len(images) - 1)], np.int64)
    names = [entry.name for entry in session.handle.get_outputs()]
    ours = session.run(names, feeds)
    logits, chosen = ours[anatomy["logits"]], ours["gradskip/target"]
    target = np.asarray(feeds.get("target", np.full(1, -1)))
    expected = np.where(target < 0, BY_RANK[logits.ndim].predicted(logits), target)
    oracle = differentiate(exportable, images, chosen, logits)
    yield "logits", "", logits, oracle.logits
    light = session.run([anatomy["logits"]], {**feeds, SWITCH: np.array(False)})
    yield "logits, explain off", "", light[anatomy["logits"]], logits
    yield "class explained", "", chosen, expected
    yield from _blocks(ours, anatomy["blocks"], oracle, len(images))


def _blocks(ours: Mapping[str, Array], blocks: list[Any], oracle: Oracle, batch: int) -> Iterator[Pair]:
    theirs = {"attention": oracle.attention, "output": oracle.outputs, "gradient": oracle.gradients}
    yield "number of blocks", "", np.array(len(blocks)), np.array(len(oracle.outputs))
    for index, block in enumerate(blocks[: len(oracle.outputs)]):
        for word, arrays in theirs.items():
            layout = block["attention_layout" if word == "attention" else "output_layout"]
            array = arrange(ours[block["outputs"][word]], layout, batch)
            yield word, f"block {index}", array, arrays[index].reshape(array.shape)
