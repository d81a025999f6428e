"""Write the files of the zoo and torch's references; what is there already is left alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import exporters, jobs
from .families import FAMILIES, Family
from .plan import File
from .post import POSTS, Work

QUANTISED = "quantised"
# A float file must compute what torch computes; one that does not is a mistake of the exporter or of the tool.
SOUND = {"float32": 1e-4, "float16": 5e-2, "bfloat16": 5e-2}


@dataclass(frozen=True, slots=True)
class Task:
    """One file and the folder it goes to."""

    folder: Path
    file: File

    @property
    def path(self) -> Path:
        return model_path(self.folder, self.file)


def model_path(folder: Path, file: File) -> Path:
    return folder / f"{file.name}.onnx"


def failure_path(folder: Path, file: File) -> Path:
    return folder / f"{file.name}.failed.json"


def twin_path(folder: Path, file: File) -> Path:
    return folder / f"{file.name}.twin.npz"


def reference_path(folder: Path, file: File) -> Path:
    """Files of free size are judged at another size than the one they were traced at."""
    return folder / f"{file.family}{'.other' if file.form.free_size else ''}.npz"


def build(folder: Path, files: Sequence[File], workers: int, retry: bool) -> Iterator[tuple[str, str]]:
    """Build what is missing; yields the name of each file and how it went: there, written, or why not."""
    folder.mkdir(parents=True, exist_ok=True)
    bases = list({file.base.name: file.base for file in files}.values())
    for part in (bases, [file for file in files if file.post]):
        tasks = []
        for file in part:
            if model_path(folder, file).exists():
                yield file.name, "there"
            elif failure_path(folder, file).exists() and not retry:
                yield file.name, json.loads(failure_path(folder, file).read_text())["reason"]
            else:
                tasks.append(Task(folder, file))
        for task, result in jobs.run(write, tasks, workers):
            yield task.file.name, _settle(task, result)


def _settle(task: Task, result: Any) -> str:
    note = failure_path(task.folder, task.file)
    if isinstance(result, jobs.Failure):
        note.write_text(json.dumps({"file": task.file.name, "reason": result.reason, "trace": result.trace}, indent=1))
        return result.reason
    note.unlink(missing_ok=True)
    return "written"


def write(task: Task) -> None:
    """One file, whole or not at all."""
    part = task.path.with_name(f".{task.path.name}")
    try:
        (_process if task.file.post else _export)(task, part)
        _prove(task, part)
        if task.file.kind == QUANTISED:
            _match(task, part)
        part.rename(task.path)
    finally:
        part.unlink(missing_ok=True)


def _export(task: Task, part: Path) -> None:
    import torch
    from gradskip_onnx.exporters.quiet import silent

    torch.set_num_threads(1)
    family, form = FAMILIES[task.file.family], task.file.form
    with silent():
        module = family.build()
        if family.fuse is not None and form.fused is not None:
            family.fuse(module, form.fused)
    _refer(task, family, module)
    exporters.export(module, family.size, form, part)


def _refer(task: Task, family: Family, module: Any) -> None:
    from . import reference

    path = reference_path(task.folder, task.file)
    if not path.exists():
        whole = path.with_name(f".{task.file.name}.npz")
        reference.write(family, module, (family.other if task.file.form.free_size else None) or family.size, whole)
        whole.rename(path)


def _process(task: Task, part: Path) -> None:
    from gradskip_onnx.exporters.quiet import silent

    before = model_path(task.folder, task.file.base)
    if not before.exists():
        raise FileNotFoundError(f"{before.name}, which it is made from, could not be written")
    with silent():
        POSTS[str(task.file.post)].step(Work(before, part, FAMILIES[task.file.family].size))


def _prove(task: Task, part: Path) -> None:
    """The file runs, and a float one agrees with torch."""
    known = np.load(reference_path(task.folder, task.file))
    found = logits_of(part, known["images"])
    if not np.isfinite(found).all():
        raise RuntimeError("its logits are not finite numbers")
    gap = float(np.abs(found - known["logits"]).max() / np.abs(known["logits"]).max())
    if gap > SOUND.get(task.file.kind, np.inf):
        raise RuntimeError(f"its logits are off torch's by {gap:.2g} of the largest")


def _match(task: Task, part: Path) -> None:
    """Beside a quantised file lies the reference of its twin."""
    from . import twin

    whole = part.with_suffix(".npz")
    twin.write(model_path(task.folder, task.file.base), part, reference_path(task.folder, task.file), whole)
    whole.rename(twin_path(task.folder, task.file))


def logits_of(path: Path, images: np.ndarray[Any, Any], optimise: bool = True) -> np.ndarray[Any, Any]:
    """The logits of a file as ONNX Runtime gives them, whatever its batch and element type."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (feed,) = session.get_inputs()
    values = images.astype(np.float16 if "float16" in feed.type else np.float32)
    fixed = feed.shape[0] if isinstance(feed.shape[0], int) else len(values)
    parts = [session.run(None, {feed.name: values[at : at + fixed]})[0] for at in range(0, len(values), fixed)]
    return np.concatenate(parts).astype(np.float32)
