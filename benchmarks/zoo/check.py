"""Explain each file with gradskip_onnx alone and compare: logits with the file's own, gradients with torch's."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gradskip_onnx.api import Explainer, load
from gradskip_onnx.errors import GradskipError, UnsupportedModelError
from gradskip_onnx.instrument.build_plan import build_plan
from gradskip_onnx.passes.run_plan import run_plan
from gradskip_onnx.runtime.session import open_session
from gradskip_onnx.types import Array, Needs, Trace

from . import jobs
from .build import QUANTISED, Task, failure_path, logits_of, model_path, reference_path, twin_path
from .families import FAMILIES
from .plan import File


@dataclass(frozen=True, slots=True)
class Bounds:
    """Largest differences allowed, in units of the largest magnitude of what is compared with."""

    logits: float  # the planned model against the file, both on ONNX Runtime
    tokens: float  # block outputs against torch's: the same tensor was found
    gradients: float  # at the block outputs, against torch's


BOUNDS: dict[str, Bounds] = {
    # Sums in another order: 1e-6 in single products, some 1e-5 after a whole model. The request asks for 1e-3.
    "float32": Bounds(1e-4, 1e-3, 1e-3),
    # 11 bits: 5e-4 a rounding, a few dozen of them one after the other.
    "float16": Bounds(1e-2, 2e-2, 5e-2),
    # Weights of 8 bits, 2e-3 of a weight each, against torch's weights of 24 bits; the arithmetic itself is float32.
    "bfloat16": Bounds(1e-4, 3e-2, 5e-2),
    # Tokens and gradients against a twin that quantises in the same places and has the integers of the file, both
    # without ONNX Runtime's optimiser: no value falls to the other side of a tie, and what is left is float32.
    "quantised": Bounds(1e-4, 1e-3, 1e-3),
}


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one file; `code` and `detail` say why, where it was not explained."""

    name: str
    outcome: str  # explained, refused, wrong, crashed
    code: str = ""
    detail: str = ""
    sha256: str = ""
    seconds: float = 0.0  # of the processor, so that reports of busy machines can be compared
    measured: Mapping[str, float] = field(default_factory=dict)


def check(
    folder: Path, files: Sequence[File], report: Path, workers: int, redo: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Check what the report does not hold yet, or holds with an outcome to be redone; yields name and outcome."""
    known = read(report)
    tasks = []
    for file in files:
        path = model_path(folder, file)
        if not path.exists():
            known.pop(file.name, None)
            yield file.name, "not built"
        elif _settled(known.get(file.name), Task(folder, file), redo):
            yield file.name, known[file.name]["outcome"]
        else:
            tasks.append(Task(folder, file))
    for task, found in jobs.run(examine, tasks, workers):
        result = found if isinstance(found, Result) else _crash(task, found)
        known[result.name] = asdict(result)
        write(report, known, _missing(folder, files))
        yield result.name, result.outcome


def read(report: Path) -> dict[str, Any]:
    """The results of a report by file name; none where there is no report yet."""
    if not report.exists():
        return {}
    results: dict[str, Any] = json.loads(report.read_text())["results"]
    return results


def write(report: Path, results: Mapping[str, Any], missing: Mapping[str, str]) -> None:
    """The report, whole or not at all."""
    part = report.with_name(f".{report.name}")
    part.write_text(json.dumps({"results": dict(sorted(results.items())), "not_built": missing}, indent=1))
    part.rename(report)


def _missing(folder: Path, files: Sequence[File]) -> dict[str, str]:
    """Why files that were asked for are not there."""
    notes = {file.name: failure_path(folder, file) for file in files if not model_path(folder, file).exists()}
    return {name: json.loads(path.read_text())["reason"] for name, path in notes.items() if path.exists()}


def _settled(before: Mapping[str, Any] | None, task: Task, redo: Collection[str]) -> bool:
    return before is not None and before["outcome"] not in redo and before["sha256"] == _digest(task)


def _digest(task: Task) -> str:
    """Of the file and of what it is compared with."""
    return hashlib.sha256(task.path.read_bytes() + _truth(task).read_bytes()).hexdigest()


def _crash(task: Task, failure: jobs.Failure) -> Result:
    return Result(task.file.name, "crashed", failure.reason, failure.trace, _digest(task))


def examine(task: Task) -> Result:
    """One file: read, planned, run, compared."""
    began = time.process_time()
    facts: dict[str, Any] = {"name": task.file.name, "sha256": _digest(task)}
    try:
        measured, fault = _measure(task)
    except UnsupportedModelError as refusal:
        judged: dict[str, Any] = {"outcome": "refused", "code": refusal.code, "detail": str(refusal)}
    except GradskipError as refusal:
        judged = {"outcome": "refused", "code": type(refusal).__name__, "detail": str(refusal)}
    else:
        judged = {"outcome": "wrong" if fault else "explained", "detail": fault, "measured": measured}
    return Result(**facts, **judged, seconds=round(time.process_time() - began, 2))


def _measure(task: Task) -> tuple[dict[str, float], str]:
    """Differences by name, and the first that is too large in words."""
    known = dict(np.load(_truth(task)))
    images, classes = known["images"], [int(c) for c in known["classes"]]
    explainer = load(task.path, "cpu", threads=1, size=images.shape[2:], cache=False)
    plain = task.file.kind == QUANTISED
    traces = _traces(explainer, images, classes, known.get("regions"), optimise=not plain)
    bounds = BOUNDS[task.file.kind]
    logits = {not plain: traces}
    if plain:  # as users run it: only the optimiser makes the integer kernels of a file with such nodes again
        logits[True] = _traces(explainer, images, classes, known.get("regions"), optimise=True)
    measured = {"logits": min(_gap_of_logits(task, images, *run) for run in logits.items())}
    fault = "" if measured["logits"] <= bounds.logits else f"logits differ by {measured['logits']:.2g} from the file's"
    readings = [known, *([_free(known)] if plain else [])]
    compared = [_compare_blocks(explainer, traces, r, bounds, FAMILIES[task.file.family].pools) for r in readings]
    found, unmatched = min(compared, key=lambda pair: (bool(pair[1]), pair[0]["gradients"]))
    maps = [explanation.map for explanation in explainer.explain(images, classes)]
    if not all(np.isfinite(map_).all() and map_.max() > 0 for map_ in maps):
        fault = fault or "the map is not finite or holds nothing"
    return measured | found, fault or unmatched


def _gap_of_logits(task: Task, images: Array, optimise: bool, traces: Sequence[Trace]) -> float:
    """The logits of the passes against those of the file itself, both with ONNX Runtime's optimiser or without.

    In one of the two ways a quantised file has the same sums as its passes. In the other a last digit may differ, which
    moves values to the next step: in real numbers where the file has integers, or in the ranges that are measured.
    """
    return gap(np.stack([trace.logits for trace in traces]), logits_of(task.path, images, optimise=optimise))


def _free(known: Mapping[str, Array]) -> dict[str, Array]:
    """The twin's second reading: real arithmetic wherever the file rounds, as ONNX defines it."""
    return {name.removeprefix("free/"): array for name, array in known.items() if name.startswith("free/")}


def _truth(task: Task) -> Path:
    """torch's reference; for a quantised file that of its fake-quantised twin."""
    place = twin_path if task.file.kind == QUANTISED else reference_path
    return place(task.folder, task.file)


def _traces(
    explainer: Explainer, images: Array, classes: Sequence[int], regions: Array | None, optimise: bool
) -> list[Trace]:
    """A pass with the block outputs and their gradients, in chunks where the file fixes the batch."""
    every = explainer.architecture.every_block
    needs = Needs(tokens_out=every, tokens_out_gradients=every)
    plan = build_plan(explainer.model.source, explainer.model.reading, needs)
    session = open_session(plan.model, plan.folder, "cpu", threads=1, optimise=optimise)
    fact = explainer.model.reading.facts[explainer.architecture.input]
    step = fact.dims[0] or len(images)
    traces: list[Trace] = []
    for at in range(0, len(images), step):
        part = slice(at, at + step)
        masks = None if regions is None else list(regions[part].astype(np.float32))
        traces += run_plan(session, plan, explainer.architecture, images[part].astype(fact.dtype), classes[part], masks)
    return traces


def _compare_blocks(
    explainer: Explainer, traces: Sequence[Trace], known: Mapping[str, Array], bounds: Bounds, pools: int
) -> tuple[dict[str, float], str]:
    """Each block of torch against the block read whose output is nearest to its own, rounded or not."""
    read_ = {
        block.index: tuple(
            np.stack([getattr(trace, kind)[block.tokens_out] for trace in traces]) for kind in ("values", "gradients")
        )
        for block in explainer.architecture.blocks
    }
    worst = {"tokens": 0.0, "gradients": 0.0}
    faults: list[str] = []
    taken = set()
    count = sum(name.startswith("output_") for name in known)
    for number in range(count):
        offers = [known[f"output_{number}"], *(known[n] for n in known if n.startswith(f"rounded_{number}_"))]
        distance = {index: min(gap(values, tokens) for tokens in offers) for index, (values, _) in read_.items()}
        nearest = min(distance, key=distance.__getitem__)
        gaps = {"tokens": distance[nearest], "gradients": gap(read_[nearest][1], known[f"gradient_{number}"])}
        taken.add(nearest)
        worst = {kind: max(worst[kind], value) for kind, value in gaps.items()}
        for kind, value in gaps.items():
            if not value <= getattr(bounds, kind):
                faults.append(f"{kind} of block {number} differ by {value:.2g} from torch's")
    extra = len(read_) - len(taken)
    if not faults and not 0 <= extra <= pools:
        faults.append(f"{len(read_)} blocks were read where torch has {count}")
    return worst | {"blocks": float(len(read_))}, faults[0] if faults else ""


def gap(seen: Array, expected: Array) -> float:
    """Largest difference, in units of the largest magnitude expected."""
    if seen.shape != expected.shape:
        return float("inf")
    wide = expected.astype(np.float64)
    found = float(np.abs(seen.astype(np.float64) - wide).max() / np.abs(wide).max())
    return found if np.isfinite(found) else float("inf")
