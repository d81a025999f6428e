"""Parts made by actors of Ray Data, on this machine or on the nodes of a cluster; Ray starts lost ones again."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from gradskip_onnx.imports.optional import import_optional

from .settings import Step
from .work import PartWork

ADDRESS = "RAY_ADDRESS"  # where a cluster answers; ray.init reads it


class PartMaker:
    """The actor: holds the sessions, makes a part for each row it gets."""

    def __init__(self, work: PartWork) -> None:
        self._work = work

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        parts = [int(part) for part in batch["part"]]
        self._work.make(parts, _quietly)
        return {"part": parts}


def run_on_ray(work: PartWork, parts: Sequence[int], step: Step) -> None:
    """Make the parts with `workers` actors, of a cluster that runs (RAY_ADDRESS), or of this machine."""
    ray, data = import_optional("ray", "ray"), import_optional("ray.data", "ray")
    started = not ray.is_initialized()
    if started:
        here = {} if ADDRESS in os.environ else {"num_cpus": max(work.settings.workers, os.cpu_count() or 1)}
        ray.init(log_to_driver=False, logging_level="error", include_dashboard=False, **here)
    try:
        _silence(data)
        actors = min(work.settings.workers, len(parts))
        sent = work.for_other_processes(actors)
        rows = data.from_items([{"part": part} for part in parts], override_num_blocks=len(parts))
        pool = data.ActorPoolStrategy(size=actors)
        made = rows.map_batches(PartMaker, fn_constructor_args=(sent,), batch_size=1, compute=pool, num_cpus=1)
        for row in made.iter_rows():
            for name in work.names(int(row["part"])):
                step(name)
    finally:
        if started:
            ray.shutdown()


def _silence(data: Any) -> None:
    """Keep what Ray Data says of its own work from the terminal: we count images."""
    data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)


def _quietly(_name: str) -> None:
    """Progress is counted by the driver."""
