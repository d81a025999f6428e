"""The cost of an audit beside that of its explanations and counterfactual passes, both measured in turns."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np

from gradskip_onnx import api
from gradskip_onnx.api import Explainer
from gradskip_onnx.audit.own_model import OwnModel
from gradskip_onnx.audit.run import run_audit
from gradskip_onnx.audit.settings import AuditSettings
from gradskip_onnx.datasets import Dataset, Entry, load
from gradskip_onnx.methods import choose_method
from gradskip_onnx.types import Array

TURN = 256  # images of a turn: a part, so that what is done once a run, such as opening sessions, weighs little
BATCH = 8


@dataclass(slots=True)
class Clock:
    """Seconds of the processor and of the wall, added up."""

    processor: float = 0.0
    wall: float = 0.0

    def time(self, work: Callable[[], object]) -> None:
        began = time.process_time(), time.perf_counter()
        work()
        self.processor += time.process_time() - began[0]
        self.wall += time.perf_counter() - began[1]


def measure_cost(model: Path, data: str, count: int, method: str, threads: int | None) -> None:
    """Print the ratio of an audit to its parts: explanations, passes over erased images, and over intact ones."""
    explainer, entries = api.load(model, "cpu", threads=threads), load(data).entries[:count]
    own, settings = OwnModel.open(explainer), AuditSettings(method=choose_method(method), batch_size=BATCH)
    audit, explanations, erased, intact = Clock(), Clock(), Clock(), Clock()
    turns = [entries[at : at + TURN] for at in range(0, len(entries), TURN)]
    _audit(explainer, turns[0][:BATCH], settings)  # opens the sessions
    _explain(explainer, turns[0][:BATCH], method)
    for turn in turns:
        images = np.stack([explainer.prepare(entry.read()).values for entry in turn])
        audit.time(lambda turn=turn: _audit(explainer, turn, settings))  # type: ignore[misc]
        explanations.time(lambda turn=turn: _explain(explainer, turn, method))  # type: ignore[misc]
        erased.time(lambda images=images: _passes(own, images, 1 + settings.check.draws))  # type: ignore[misc]
        intact.time(lambda images=images: _passes(own, images, 1))  # type: ignore[misc]
    click.echo(f"{explainer.name}, {len(entries)} images of {data}, {method}, batches of {BATCH}; ms an image")
    for name, clock in (("audit", audit), ("explanations", explanations), ("erased", erased), ("intact", intact)):
        click.echo(f"  {name:13} processor {1e3 * clock.processor / count:8.2f}  wall {1e3 * clock.wall / count:8.2f}")
    for words, parts in (("and erased passes", (explanations, erased)),
                         ("erased and intact passes", (explanations, erased, intact))):  # fmt: skip
        processor = audit.processor / sum(part.processor for part in parts)
        wall = audit.wall / sum(part.wall for part in parts)
        click.echo(f"audit / explanations {words}: processor {processor:.3f}, wall {wall:.3f}")


def _audit(explainer: Explainer, entries: Sequence[Entry], settings: AuditSettings) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Dataset("own", "own", tuple(entries))
        run_audit(explainer, data, folder, replace(settings, part_size=TURN))


def _explain(explainer: Explainer, entries: Sequence[Entry], method: str) -> None:
    """Read and explain each image, as a loop of one's own would."""
    for _ in explainer.explain((entry.read() for entry in entries), method=method, batch_size=BATCH):
        pass


def _passes(own: OwnModel, images: Array, times: int) -> None:
    """So many passes over each image; the images are there already."""
    for _ in range(times):
        for start in range(0, len(images), BATCH):
            own.logits(images[start : start + BATCH])
