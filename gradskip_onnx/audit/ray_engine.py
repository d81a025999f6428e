"""Parts made by actors of Ray Data, on this machine or on the nodes of a cluster; Ray starts lost ones again."""

from __future__ import annotations

import logging
import os
import pickle
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from gradskip_onnx.errors import GradskipError, ModelError
from gradskip_onnx.imports.optional import import_optional

from .settings import MOST_LOSSES, Step
from .work import PartWork

ADDRESS = "RAY_ADDRESS"  # where a cluster answers; ray.init reads it


class PartMaker:
    """The actor: holds the sessions, makes a part for each row it gets."""

    def __init__(self, work: PartWork) -> None:
        self._work = work

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """What stops the audit goes to the driver as it is; Ray would wrap it in words of its own."""
        parts, error = [int(part) for part in batch["part"]], b""
        try:
            self._work.make(parts, _quietly)
        except GradskipError as stopped:
            error = pickle.dumps(stopped)
        return {"part": parts, "error": [error] * len(parts)}


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
        with warnings.catch_warnings():  # that the number of retries is named otherwise from Ray 2.64 on
            warnings.simplefilter("ignore", DeprecationWarning)
            made = rows.map_batches(
                PartMaker, fn_constructor_args=(sent,), batch_size=1, compute=pool, num_cpus=1,
                max_task_retries=MOST_LOSSES,  # else it tries for ever
            )  # fmt: skip
        for row in made.iter_rows():
            if row["error"]:
                raise pickle.loads(row["error"])
            for name in work.names(int(row["part"])):
                step(name)
    except ray.exceptions.RayError as lost:
        raise ModelError(
            f"Ray gave up after {MOST_LOSSES} new attempts at a part ({type(lost).__name__}); actors may lack memory: "
            "use fewer --workers or a smaller --batch-size; what is finished is kept"
        ) from lost
    finally:
        if started:
            ray.shutdown()


def _silence(data: Any) -> None:
    """Keep what Ray Data says of its own work from the terminal: we count images."""
    data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # what goes wrong is an error of ours


def _quietly(_name: str) -> None:
    """Progress is counted by the driver."""
