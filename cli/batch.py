"""Many images through one explainer: a bad one is reported, the others go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.preprocess import prepare
from gradskip_onnx.images.read import Picture, open_picture
from gradskip_onnx.output.files import Folder, Subject, class_suffix, document, plan_stems
from gradskip_onnx.passes.extra_passes import Progress
from gradskip_onnx.types import Task

from .explain_request import ExplainRequest
from .inputs import expand

if TYPE_CHECKING:
    from gradskip_onnx.api import Explainer, Explanation


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One image and the stem of its files."""

    path: Path
    stem: str


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What became of a job: results with their files and documents, or the error."""

    job: Job
    results: tuple[tuple[Explanation, tuple[Path, ...]], ...] = ()
    documents: tuple[dict[str, Any], ...] = ()
    error: InputError | None = None
    task: Task = "classification"


def plan_jobs(images: Sequence[str]) -> tuple[Job, ...]:
    """The images with the names of their files, or that of the demo; nothing is opened yet."""
    if not images:
        from gradskip_onnx.demo import demo_image

        return (Job(demo_image(), "demo"),)
    paths = expand(images)
    return tuple(Job(path, stem) for path, stem in zip(paths, plan_stems(paths), strict=True))


def run_jobs(
    explainer: Explainer, jobs: Sequence[Job], request: ExplainRequest, folder: Folder, progress: Progress | None = None
) -> Iterator[Outcome]:
    """The outcome of each job, in order; `progress` is told of the further passes of an image."""
    step = request.batch_size if request.joint else 1
    for start in range(0, len(jobs), step):
        group = [(job, _opened(job)) for job in jobs[start : start + step]]
        pictures = [picture for _, picture in group if isinstance(picture, Picture)]
        shared = iter(_together(explainer, pictures, request) if request.joint else ())
        for job, picture in group:
            if isinstance(picture, InputError):
                yield Outcome(job, error=picture)
                continue
            try:
                results = next(shared, None) or _alone(explainer, picture, request, progress)
                yield _written(explainer, job, picture, results, request, folder)
            except InputError as error:
                yield Outcome(job, error=error)


def _opened(job: Job) -> Picture | InputError:
    try:
        return open_picture(job.path)
    except InputError as error:
        return error


def _alone(
    explainer: Explainer, picture: Picture, request: ExplainRequest, progress: Progress | None
) -> list[Explanation]:
    """One image: one class, or the likeliest five, which share its forward pass."""
    if request.top:
        return request.run_likeliest(explainer, picture.image, progress)
    found: Explanation = request.run(explainer, picture.image, request.target, progress)
    return [found]


def _together(explainer: Explainer, pictures: Sequence[Picture], request: ExplainRequest) -> list[list[Explanation]]:
    """Images in one pass; none, if the pass fails, so that each is tried alone and only the culprit is reported."""
    try:
        prepared = [prepare(picture.image, explainer.preprocess) for picture in pictures]
        found = request.run(explainer, np.stack([array for array, _ in prepared]), request.target) if prepared else []
    except InputError:
        return []
    return [
        [replace(result, map=geometry.place(result.map), geometry=geometry)]
        for result, (_, geometry) in zip(found, prepared, strict=True)
    ]


def _written(
    explainer: Explainer,
    job: Job,
    picture: Picture,
    results: Sequence[Explanation],
    request: ExplainRequest,
    folder: Folder,
) -> Outcome:
    """Write the files of one image; with several classes their names carry the class."""
    stems = [job.stem + class_suffix(result.target) for result in results] if request.top else [job.stem]
    if request.top:
        folder.claim(stems)
    task = explainer.architecture.task
    score = "the method's own" if request.own_score else request.score
    subject = Subject(explainer.name, picture.name, picture.sha256, task, score, request.region_text)
    files, documents = [], []
    for stem, result in zip(stems, results, strict=True):
        files.append(folder.write(stem, result, picture.image, subject))
        facts = document(result, picture.image, subject)
        documents.append(facts | {"files": {path.suffix[1:]: str(path) for path in files[-1]}})
    return Outcome(job, tuple(zip(results, files, strict=True)), tuple(documents), task=task)
