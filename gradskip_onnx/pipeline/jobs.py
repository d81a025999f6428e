"""Image files to explain, each with the name of its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradskip_onnx.output.folder import plan_stems


@dataclass(frozen=True, slots=True)
class Job:
    """One image file, and the stem of the files written for it."""

    path: Path
    stem: str


def plan_jobs(paths: Sequence[Path]) -> tuple[Job, ...]:
    """One job per image, each with its own stem; no file is opened."""
    return tuple(Job(path, stem) for path, stem in zip(paths, plan_stems(paths), strict=True))
